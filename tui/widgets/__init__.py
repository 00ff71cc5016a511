"""What is drawn: blocks of a sheet as rows of styled text, and the few widgets that show them."""
