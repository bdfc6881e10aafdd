"""What is only read of a store: histories, lists, news, the feed."""
