"""A live runtime, joined: the child process, its debugger, its judges."""
