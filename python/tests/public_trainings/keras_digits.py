"""A convolutional network on scikit-learn's digits, in the form of Keras's example "Simple MNIST convnet" (keras.io, Apache-2.0)."""

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

keras.utils.set_random_seed(0)
images, labels = load_digits(return_X_y=True)
x_train = np.expand_dims(images.astype("float32").reshape(-1, 8, 8) / 16, -1)
y_train = keras.utils.to_categorical(labels, 10)

model = keras.Sequential(
    [
        keras.Input(shape=(8, 8, 1)),
        layers.Conv2D(8, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile(loss="categorical_crossentropy", optimizer="adam")
batch_size, epochs = 256, 1
model.fit(x_train, y_train, batch_size=batch_size, epochs=epochs, verbose=0)
