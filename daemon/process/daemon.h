// The daemon: builds its parts and joins them; starts, drains and stops them; hands over to another
// program.
//
// Owner: main. Thread: main; Start() makes the loop's thread. Memory: all of it.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <asio/io_context.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/fabric/tcp_fabric.h"
#include "daemon/intake/intake.h"
#include "daemon/loop/hello_sockets.h"
#include "daemon/loop/loop.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/node/node.h"
#include "daemon/process/options.h"
#include "daemon/process/signals.h"
#include "daemon/process/successor.h"
#include "daemon/record/event_log.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/record/operation_counts.h"
#include "daemon/services/control_server.h"
#include "daemon/work/scratch_pool.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

class Daemon {
 public:
  // Takes every resource: socket, ports, identity. A private daemon stops by `signals` after its
  // last client.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(const Options& options,
                                                        const v1::DaemonConfig& config,
                                                        TerminationSignals& signals,
                                                        intake::ListenSocket listen_socket);
  ~Daemon();

  // Fails if the metrics' port is not available.
  absl::Status Start();
  // At SIGHUP, after the log was reopened: reads the cluster's key again. Connections that were
  // proved with a removed key are proved again. An invalid file changes nothing. The configuration
  // is not applied, but a change or a mistake in it is reported. Errors are logged, and are events.
  void Reload(const absl::Status& log_reopened);
  // Refuses new jobs, gives running ones the configured time to end, then stops them with
  // DAEMON_STOPPING and returns DEADLINE_EXCEEDED.
  absl::Status Drain();
  // Handles SIGUSR2: examines the program that is to take this one's place, and notifies `signals`
  // once no client is left. A refusal is an event.
  void RestartWhenIdle(const Successor& successor, TerminationSignals& signals);
  // When no client is left: examines it again, and ends this daemon. FAILED_PRECONDITION: it no
  // longer qualifies; this daemon keeps running.
  absl::StatusOr<intake::ListenSocket> HandOver(const Successor& successor);
  // Handles SIGUSR1: cancels a pending hand-over, and clears a reported refusal.
  void TakeBackRestart() { loop_->CancelNext(); }

 private:
  Daemon() = default;
  bool ReloadKeys();
  void CheckConfigAgain();
  void ReportReload(record::EventSeverity severity, const std::string& object,
                    const std::string& text);
  void OpenHelloSockets();
  void End();

  v1::DaemonConfig config_;
  std::string config_file_;  // Empty if started without one.
  bool is_private_ = false;
  asio::io_context io_{1};
  std::unique_ptr<record::FlightRecorder> recorder_;
  std::unique_ptr<record::OperationCounts> operation_counts_;
  record::EventLog events_;
  std::unique_ptr<ScratchPool> scratch_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<intake::Intake> intake_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<fabric::TcpFabric> fabric_;
  std::unique_ptr<HelloSockets> hellos_;  // nullptr if discovery is off.
  std::unique_ptr<services::PostedCalls> calls_;
  std::unique_ptr<services::ControlServer> control_;
  std::unique_ptr<metrics::MetricsEndpoint> metrics_;  // nullptr if not configured.
  std::thread loop_thread_;
};

}  // namespace mlxcomm
