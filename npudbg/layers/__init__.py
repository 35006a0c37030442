"""The four layers of judgement: host, input, trace, output."""
