"""What must hold of FaunaDB's layer whatever runs at once and whenever the server is killed."""
