"""What each layer of an encoder knows before training, and how far training moves it."""
