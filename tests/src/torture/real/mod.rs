//! The torture run outside: the shipped binary, real nodes, real signals.
