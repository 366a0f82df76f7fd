from everfresh.testing.suite_base import SuiteBase
class HistorySuite(SuiteBase):
    pass
