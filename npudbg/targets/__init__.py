"""Target profiles: what each chip demands and offers."""
