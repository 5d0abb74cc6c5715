"""Commands of `import`: take a file or a region's machines, and register or change nodes after a preview."""
