"""What the shop sells, to whom, and how an order becomes a parcel."""
