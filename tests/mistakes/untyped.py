"""What users import, without its types: a checker refuses most of these mistakes, and not everybody
has one."""

from typing import Any

import perdure

activity: Any = perdure.activity
orchestration: Any = perdure.orchestration
transaction: Any = perdure.transaction
context: Any = perdure.context
inline: Any = perdure.inline
run: Any = perdure.run
Signal: Any = perdure.Signal
Client: Any = perdure.Client
BlockingClient: Any = perdure.BlockingClient
Engine: Any = perdure.Engine
Worker: Any = perdure.Worker
Retry: Any = perdure.Retry
WorkerOptions: Any = perdure.WorkerOptions
for_each: Any = perdure.for_each
Stream: Any = perdure.Stream
