"""From a bundle to a diagnosis, in pure steps: align, attribute, derive, match, prescribe."""
