package agent

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/fabric/wire"
)

// SecretVariable is the environment variable of the secret that all ranks of a run share.
const SecretVariable = "GOBW_FABRIC_SECRET"

// Secret is where the secret comes from: a file, or the environment.
type Secret struct{ file string }

// Bind adds its flag to a command.
func (s *Secret) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&s.file, "token-file", "", "file with a secret that all ranks share ($"+SecretVariable+")")
}

// Given tells whether there is one.
func (s *Secret) Given() bool { return s.file != "" || os.Getenv(SecretVariable) != "" }

// Key is the run's key.
func (s *Secret) Key(job string) (wire.Key, error) {
	secret := os.Getenv(SecretVariable)
	if s.file != "" {
		b, err := cmdline.ReadToken(s.file)
		if err != nil {
			return nil, cmdline.Prefixed("--token-file", err)
		}
		secret = string(b)
	}
	return wire.KeyOf(job, secret), nil
}
