"""The caller's door: clients, handles, the engine that is a client and a worker in one.

What they return is in `info` (instances, jobs, messages), `overview` (queues, workers, sessions,
dead jobs) and `perdure.model.admin` (counts); which instances a list has is said with `lists`.
"""
