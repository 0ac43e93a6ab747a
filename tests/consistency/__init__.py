"""Is it strictly serializable, seen from outside? Transactions over lists through each protocol, judged by their dependencies."""
