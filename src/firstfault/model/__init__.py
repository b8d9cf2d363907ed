"""Everything that flows: spans, events, facts, bundles and the diagnosis. Immutable values, no behaviour beyond access."""
