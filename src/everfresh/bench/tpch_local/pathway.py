"""placeholder"""
def cells(*a): return []
