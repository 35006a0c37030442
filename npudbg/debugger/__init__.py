"""The debugger: a cursor over a record, memory as it was, stops, and a language for them."""
