"""One call in this process: its state, the task that it runs in, and the code of the application that it runs."""
