"""The protocol that keeps views of a store consistent: coordinator, managers and readers as generators.

"Epochs" in docs/design/key-value.md. A generator yields what it wants done (`calls`, messages) and is sent
what came of it; it does no I/O, so the same code runs in-process (`perform`) and under the simulation's
scheduler.

- `calls`        what is asked of the store and the network
- `head`         the head row of a view group
- `timeline`     condensed changes of records
- `dataflow`     what managers compute
- `messages`     what they tell each other, and the inbox that takes each message once
- `coordinator`  plan, fence, work, commit; taking over from one that died
- `manager`      one worker's part of an epoch
- `reading`      consistent reads
"""
