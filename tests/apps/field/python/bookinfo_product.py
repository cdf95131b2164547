"""Bookinfo's page of a product: Flask and requests, which ask for details and reviews one after the other."""

import os

import requests
from flask import Flask, jsonify

app = Flask(__name__)
DETAILS, REVIEWS, RATINGS = (os.environ[f"{name}_URL"] for name in ("DETAILS", "REVIEWS", "RATINGS"))


def get(url):
    answer = requests.get(url, timeout=30)
    answer.raise_for_status()
    return answer.json()


@app.get("/productpage/<id>")
def product_page(id):
    details = get(f"{DETAILS}/details/{id}")
    reviews = get(f"{REVIEWS}/reviews/{id}")
    rows = "".join(f"<blockquote>{review['text']} {review['rating']}</blockquote>" for review in reviews["reviews"])
    return f"<h3>{details['author']}</h3>{rows}"


@app.get("/details/<id>")
def details(id):
    return jsonify(get(f"{DETAILS}/details/{id}"))


@app.get("/reviews/<id>")
def reviews(id):
    return jsonify(get(f"{REVIEWS}/reviews/{id}"))


@app.get("/ratings/<id>")
def ratings(id):
    return jsonify(get(f"{RATINGS}/ratings/{id}"))
