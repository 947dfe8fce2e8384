"""What may be done to the rows of a brain, whichever door asks: documents, guards, contents, entities, relations."""
