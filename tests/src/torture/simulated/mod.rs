//! The torture run in virtual time, from one seed.
