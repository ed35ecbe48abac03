package verbs

// Provider finds RDMA devices of one kind. It may be used by several goroutines.
type Provider interface {
	// Name is "ibv" or "roce".
	Name() string
	// Devices lists the devices that can be opened, without opening them. An empty list is an answer, not an error:
	// errors say why the provider could not look (library missing, no permission), with a remedy.
	Devices() ([]DeviceName, error)
	// Open opens the device of that name.
	Open(name string) (Device, error)
}

// DeviceName identifies a device that has not been opened.
type DeviceName struct {
	Name     string `json:"name"`     // "mlx5_0", "roce0"
	Provider string `json:"provider"` // "ibv", "roce"
	GUID     GUID   `json:"guid"`     // node GUID, 0 if unknown before opening
	Path     string `json:"path"`     // sysfs directory, empty for the software device
}
