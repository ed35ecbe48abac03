package render

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
)

// chromium is the browser's name on this system; the test skips where there is none.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testrun.Missing(t, "chromium")
	return ""
}

// browse runs the headless browser on a page and returns its standard output.
func browse(t *testing.T, page string, args ...string) string {
	t.Helper()
	path := chromium(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
		"--disable-component-update", "--disable-sync",
		"--disable-default-apps", "--disable-extensions", "--no-first-run", "--no-default-browser-check", "--no-proxy-server",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + t.TempDir(), "--enable-logging=stderr",
		"--hide-scrollbars",
	}, args...)
	cmd := exec.CommandContext(ctx, path, append(args, "file://"+page)...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, talk.String())
	}
	if strings.Contains(talk.String(), "CONSOLE") {
		t.Errorf("the page made the browser complain:\n%s", talk.String())
	}
	return out.String()
}

// A real browser loads the page without a complaint, finds every picture in it, and draws it light and dark.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a browser takes seconds")
	}
	chromium(t)
	docs := []*report.Document{saved("sample"), saved("repeated")}
	page := filepath.Join(t.TempDir(), "page.html")
	write := func(source []byte) {
		t.Helper()
		if err := os.WriteFile(page, source, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := Documents(&b, "html", docs); err != nil {
		t.Fatal(err)
	}
	for _, remote := range []string{`src="http`, `href="http`, "url(", "@import"} {
		if strings.Contains(b.String(), remote) {
			t.Errorf("the page refers to something outside: %s", remote)
		}
	}

	// The page measures itself: pictures that have a size, text that lies in its picture, a table that was laid out.
	probe := `<script>addEventListener("load",function(){
var seen=0,outside=[];
document.querySelectorAll("figure svg").forEach(function(s){
  var box=s.getBoundingClientRect(); if(box.width>200&&box.height>100)seen++;
  s.querySelectorAll("text").forEach(function(t){var r=t.getBoundingClientRect();
    if(r.left<box.left-1||r.right>box.right+1||r.top<box.top-1||r.bottom>box.bottom+1)outside.push(t.textContent)});
});
document.body.dataset.pictures=seen; document.body.dataset.outside=outside.join("|");
document.body.dataset.rows=[].filter.call(document.querySelectorAll("tbody tr"),function(r){return r.offsetHeight>10}).length;
document.getElementById("theme").click(); var first=getComputedStyle(document.body).backgroundColor;
document.getElementById("theme").click(); document.body.dataset.themes=first===getComputedStyle(document.body).backgroundColor?"same":"differ";
})</script></body>`
	write(bytes.Replace(b.Bytes(), []byte("</body>"), []byte(probe), 1))
	dom := browse(t, page, "--dump-dom", "--window-size=1200,1000")
	for _, want := range []string{
		`data-pictures="6"`, `data-outside=""`, `data-themes="differ"`, `software device, not a NIC`,
	} {
		if !strings.Contains(dom, want) {
			at := strings.Index(dom, "data-pictures")
			t.Errorf("the page in the browser lacks %s: %.300s", want, dom[max(at, 0):])
		}
	}

	brightness := map[string]float64{}
	for _, theme := range []string{"light", "dark"} {
		write(bytes.Replace(b.Bytes(), []byte("<html "), []byte(`<html data-theme="`+theme+`" `), 1))
		shot := filepath.Join(t.TempDir(), theme+".png")
		browse(t, page, "--screenshot="+shot, "--window-size=1200,1400")
		f, err := os.Open(shot)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(f)
		_ = f.Close() // read to its end
		if err != nil {
			t.Fatal(err)
		}
		brightness[theme] = mean(img)
		if dir := os.Getenv("PLOT_OUT"); dir != "" {
			if b, err := os.ReadFile(shot); err == nil {
				_ = os.WriteFile(filepath.Join(dir, "page-"+theme+".png"), b, 0o644) // for a person to look at
			}
		}
	}
	if brightness["light"] < 0.8 || brightness["dark"] > 0.35 {
		t.Errorf("mean brightness %.2f light and %.2f dark, want over 0.8 and under 0.35", brightness["light"],
			brightness["dark"])
	}
}

// mean brightness of a picture, 0…1.
func mean(img image.Image) float64 {
	sum, n := 0.0, 0.0
	for y := 0; y < img.Bounds().Dy(); y += 3 {
		for x := 0; x < img.Bounds().Dx(); x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			sum += float64(r+g+b) / 3 / 0xffff
			n++
		}
	}
	return sum / n
}
