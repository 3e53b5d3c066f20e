"""The examples do what the README says of them."""
