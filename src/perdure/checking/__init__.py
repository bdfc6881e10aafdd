"""What must always hold, as code: `perdure doctor` and all tests look at a store with it."""
