"""Which bytes of memory a session's commands wrote, and when: for rules and debugger alike."""
