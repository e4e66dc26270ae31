"""What people look at: notes, profiles, pictures, pages, notebooks."""
