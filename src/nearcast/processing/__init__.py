"""What runs in a worker process: processors as they are called, and the worker's own loop. It imports little."""
