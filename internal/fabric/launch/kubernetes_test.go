package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
)

// What follows is of Kubernetes' API reference (batch/v1 Job; v1 Service, Secret, PodSpec, Container): the fields that
// a manifest like ours may have, by their names and types there, and not all that there are. Any other field is an
// error, as it is for a server with fieldValidation=Strict.
type (
	objectMeta struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
	}
	service struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   objectMeta
		Spec       struct {
			ClusterIP                string `yaml:"clusterIP"`
			PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
			Type                     string
			Selector                 map[string]string
			Ports                    []struct {
				Name, Protocol string
				Port           int32
				TargetPort     any `yaml:"targetPort"`
			}
		}
	}
	secret struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   objectMeta
		Type       string
		StringData map[string]string `yaml:"stringData"`
		Data       map[string]string
		Immutable  bool
	}
	kubernetesJob struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   objectMeta
		Spec       struct {
			ActiveDeadlineSeconds   *int64  `yaml:"activeDeadlineSeconds"`
			BackoffLimit            *int32  `yaml:"backoffLimit"`
			BackoffLimitPerIndex    *int32  `yaml:"backoffLimitPerIndex"`
			CompletionMode          *string `yaml:"completionMode"`
			Completions             *int32
			MaxFailedIndexes        *int32 `yaml:"maxFailedIndexes"`
			Parallelism             *int32
			Suspend                 *bool
			TTLSecondsAfterFinished *int32 `yaml:"ttlSecondsAfterFinished"`
			Template                struct {
				Metadata objectMeta
				Spec     podSpec
			}
		}
	}
	podSpec struct {
		Affinity struct {
			PodAntiAffinity struct {
				Required []struct {
					TopologyKey   string `yaml:"topologyKey"`
					LabelSelector struct {
						MatchLabels map[string]string `yaml:"matchLabels"`
					} `yaml:"labelSelector"`
				} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `yaml:"podAntiAffinity"`
		}
		Containers                    []container
		HostNetwork                   bool   `yaml:"hostNetwork"`
		RestartPolicy                 string `yaml:"restartPolicy"`
		Subdomain                     string
		TerminationGracePeriodSeconds *int64 `yaml:"terminationGracePeriodSeconds"`
	}
	container struct {
		Name, Image     string
		Command, Args   []string
		Env             []envVar
		Resources       struct{ Limits, Requests map[string]string }
		SecurityContext struct {
			Capabilities struct{ Add, Drop []string }
			Privileged   *bool
		} `yaml:"securityContext"`
	}
	envVar struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct {
				Name, Key string
				Optional  *bool
			} `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
)

// manifest reads examples/kubernetes/fabric.yaml, its three objects in their order.
func manifest(t *testing.T) (sv service, sc secret, j kubernetesJob) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "examples", "kubernetes", "fabric.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	d := yaml.NewDecoder(f, yaml.Strict())
	if err := errors.Join(d.Decode(&sv), d.Decode(&sc), d.Decode(&j)); err != nil {
		t.Fatal(err)
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		t.Fatalf("a fourth object: %v, %v", more, err)
	}
	return sv, sc, j
}

// TestKubernetesManifest holds the manifest to what Kubernetes and the ranks make of it.
func TestKubernetesManifest(t *testing.T) {
	sv, sc, j := manifest(t)
	pod := j.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	c := pod.Containers[0]
	for name, ok := range map[string]bool{
		"kinds and versions": sv.APIVersion == "v1" && sv.Kind == "Service" && sc.APIVersion == "v1" && sc.Kind == "Secret" &&
			j.APIVersion == "batch/v1" && j.Kind == "Job",
		// The controller gives each pod of a Job the label job-name; a headless Service without ports gives them names.
		"a headless Service of the Job's pods": sv.Spec.ClusterIP == "None" && len(sv.Spec.Selector) == 1 &&
			sv.Spec.Selector["job-name"] == j.Metadata.Name,
		"names before readiness":            sv.Spec.PublishNotReadyAddresses,
		"the pods' names are the Service's": pod.Subdomain == sv.Metadata.Name,
		"an Indexed Job of as many as it runs": *j.Spec.CompletionMode == "Indexed" &&
			*j.Spec.Completions == *j.Spec.Parallelism && *j.Spec.Completions >= 2,
		"a pod that failed stays so": *j.Spec.BackoffLimit == 0 && pod.RestartPolicy == "Never",
		"one pod a host": len(pod.Affinity.PodAntiAffinity.Required) == 1 &&
			pod.Affinity.PodAntiAffinity.Required[0].TopologyKey == "kubernetes.io/hostname" &&
			len(j.Spec.Template.Metadata.Labels) == 1 &&
			fmt.Sprint(pod.Affinity.PodAntiAffinity.Required[0].LabelSelector.MatchLabels) == fmt.Sprint(
				j.Spec.Template.Metadata.Labels),
		"memory may be locked": slices.Contains(c.SecurityContext.Capabilities.Add, "IPC_LOCK"),
		"the command":          len(c.Args) > 0 && c.Args[0] == "fabric",
	} {
		if !ok {
			t.Errorf("not so: %s", name)
		}
	}
	n := int(*j.Spec.Completions)
	for index := range n {
		// What a pod of an Indexed Job finds in its environment, beside the manifest's own.
		env := map[string]string{
			"JOB_COMPLETION_INDEX": fmt.Sprint(index), "HOSTNAME": fmt.Sprintf("%s-%d", j.Metadata.Name, index),
		}
		for _, v := range c.Env {
			env[v.Name] = v.Value
			if r := v.ValueFrom.SecretKeyRef; r.Name != "" {
				env[v.Name] = sc.StringData[r.Key]
				if r.Name != sc.Metadata.Name || env[v.Name] == "" {
					t.Errorf("%s: no secret %s/%s", v.Name, r.Name, r.Key)
				}
			}
		}
		id, err := Discover("", func(k string) string { return env[k] })
		if err != nil {
			t.Fatal(err)
		}
		zero := fmt.Sprintf("%s-0.%s", j.Metadata.Name, sv.Metadata.Name)
		if id.Rank != index || id.Size != n || !slices.Equal(id.Rendezvous, []string{zero}) || id.Job != j.Metadata.Name ||
			env["GOBW_FABRIC_SECRET"] == "" {
			t.Errorf("pod %d is %+v, want rank %d of %d with rank 0 at %s", index, id, index, n, zero)
		}
	}
}

// TestKubernetesDecoderIsStrict: a field that Kubernetes does not know is not passed over.
func TestKubernetesDecoderIsStrict(t *testing.T) {
	for _, text := range []string{
		"spec:\n  completion: 4", "spec:\n  completions: many", "spec:\n  template:\n    spec:\n      restart: Never",
	} {
		if err := yaml.UnmarshalWithOptions([]byte(text), &kubernetesJob{}, yaml.Strict()); err == nil {
			t.Errorf("taken: %s", text)
		}
	}
}
