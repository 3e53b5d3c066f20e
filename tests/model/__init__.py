"""Every interleaving of small sagas, driven through the real engine over a store that can be copied."""
