"""The caller's door: clients, handles, the engine that is a client and a worker in one."""
