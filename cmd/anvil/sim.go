package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"anvil/stages/sim"
)

const (
	maxSimConfig = 1 << 20
	simGrace     = 10 * time.Second // for answers under way when the engine is told to stop
)

func newSimCommand(a *app) *cobra.Command {
	var listen, config string
	c := &cobra.Command{
		Use: "sim", Short: "Serve the embedded simulated engine on a loopback socket", Args: exactly(),
		Long: `sim serves an OpenAI-compatible engine that simulates a language model: declared
rates, slots and a queue, a prefix cache, faults on request. It measures nothing,
and every response says that it is simulated.

The first line on stdout is {"base_url": "http://127.0.0.1:PORT/v1"}. It serves
until it is interrupted or terminated, lets the answers under way end (a second
signal does not wait for them) and exits 0. It asks nobody for a key, so it
listens on loopback addresses only; others reach it through a tunnel.

--config is JSON as ` + "`anvil schema show anvil.sim-config/v1`" + ` says, with the keys of
an endpoint's sim block and "model".`,
		RunE: func(c *cobra.Command, _ []string) error { return a.sim(c.Context(), listen, config) },
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback address to listen on; port 0: a free one")
	c.Flags().StringVar(&config, "config", "", "file that declares the engine; default: the defaults of a plan's sim block")
	return c
}

func (a *app) sim(ctx context.Context, listen, config string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, err := simConfig(config)
	if err != nil {
		return err
	}
	server, err := sim.Listen(cfg, listen)
	if err != nil {
		return &exitError{code: exitUsage, name: "listen", err: err}
	}
	if err := json.NewEncoder(a.stdout).Encode(map[string]string{"base_url": server.BaseURL()}); err != nil {
		return errors.Join(err, server.Close())
	}
	<-ctx.Done()
	return stopSim(server)
}

// stopSim lets answers under way end, unless they take too long or a second
// signal comes.
func stopSim(server *sim.Server) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, simGrace)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil // what was still under way was cut off, as announced
	}
	return err
}

func simConfig(file string) (sim.Config, error) {
	cfg := sim.DefaultConfig()
	if file != "" {
		src, err := readBounded(file, maxSimConfig)
		if err != nil {
			return cfg, &exitError{code: exitUsage, name: "unreadable", err: err}
		}
		if cfg, err = sim.ParseConfig(src); err != nil {
			return cfg, usagef("%s: %w", file, err)
		}
	}
	cfg.Version = version
	return cfg, nil
}
