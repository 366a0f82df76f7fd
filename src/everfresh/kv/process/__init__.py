"""Views over a store in processes of their own: the store's owner, managers, clients, over Unix sockets.

"Processes" in docs/design/key-value.md.

- `wire`        messages: a tree of plain values, bytes, and rows as Arrow
- `server`      the owner of a store: answers calls of the store and consistent reads
- `remote`      a store that another process owns
- `mail`        letters between managers
- `spread`      a group that several managers keep together
- `maintainer`  a view manager: keeps its share of the view groups fresh
- `master`      gives view groups to managers
- `ring`        which manager has which group
- `load`        how views keep up, as managers tell
- `role`        how a master and a manager end
- `points`      where a process ends itself, for tests
- `supervisor`  starts both, and managers again that died
"""
