"""The pages for operators: views go in; HTML, forms and submitted intents come out."""
