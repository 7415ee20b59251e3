"""The PostgreSQL database, shared by several machines. It needs the extra `postgres`."""
