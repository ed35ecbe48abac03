package report

// noncontigPictures draws the non-contiguous experiment of a document, if it has one.
func noncontigPictures(d *Document) []Picture {
	if d.Noncontig == nil {
		return nil
	}
	if p, ok := any(d.Noncontig).(interface{ pictures(d *Document) []Picture }); ok {
		return p.pictures(d)
	}
	return nil
}

// noncontigGrids makes the tables of the non-contiguous experiment.
func noncontigGrids(d *Document) []grid {
	if d.Noncontig == nil {
		return nil
	}
	if p, ok := any(d.Noncontig).(interface{ grids(d *Document) []grid }); ok {
		return p.grids(d)
	}
	return nil
}
