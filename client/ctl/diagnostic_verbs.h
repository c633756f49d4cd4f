// The command lines of the verbs that look for what there is and what is wrong: topology,
// doctor, ping, events, bugreport.
//
// Owner: main. Thread: main. Memory: the verbs' options.
#pragma once

#include <optional>

#include <CLI/CLI.hpp>

#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {

class DiagnosticVerbs {
 public:
  // Before the command line is parsed; `app` outlives it.
  DiagnosticVerbs(CLI::App& app, const char* called);
  // The exit code of the one that was asked for; nothing: none of them was.
  std::optional<int> Run() const;

 private:
  void AddTopology(CLI::App& app);
  void AddDoctor(CLI::App& app);
  void AddPing(CLI::App& app);
  void AddEvents(CLI::App& app);
  void AddBugreport(CLI::App& app);

  TopologyOptions topology_options_;
  DoctorOptions doctor_options_;
  PingOptions ping_options_;
  EventsOptions events_options_;
  BugreportOptions bugreport_options_;
  CLI::App* topology_ = nullptr;
  CLI::App* doctor_ = nullptr;
  CLI::App* ping_ = nullptr;
  CLI::App* events_ = nullptr;
  CLI::App* bugreport_ = nullptr;
};

// "1s", "200ms" into `value`, which is from `min_ns` to `max_ns`.
void AddDuration(CLI::App& verb, const std::string& name, std::uint64_t& value,
                 std::uint64_t min_ns, std::uint64_t max_ns, const std::string& what);

}  // namespace mlxcomm::ctl
