#include "client/ctl/diagnostic_verbs.h"

#include "client/ctl/quantities.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr const char* kSocket = "The daemon's Unix socket";

}  // namespace

void AddDuration(CLI::App& verb, const std::string& name, std::uint64_t& value,
                 std::uint64_t min_ns, std::uint64_t max_ns, const std::string& what) {
  const auto take = [&value, name, min_ns, max_ns](const std::string& text) {
    const std::optional<std::uint64_t> parsed = ParseDuration(text);
    if (!parsed || *parsed < min_ns || *parsed > max_ns) {
      throw CLI::ValidationError(name, "\"" + text + "\" is no time from " +
                                           HumanNanoseconds(min_ns) + " to " +
                                           HumanNanoseconds(max_ns) + ", such as 500ms or 2s");
    }
    value = *parsed;
  };
  verb.add_option_function<std::string>(name, take, what);
}

DiagnosticVerbs::DiagnosticVerbs(CLI::App& app, const char* called) {
  bugreport_options_.called = called;
  AddTopology(app);
  AddDoctor(app);
  AddPing(app);
  AddEvents(app);
  AddBugreport(app);
}

void DiagnosticVerbs::AddTopology(CLI::App& app) {
  topology_ = app.add_subcommand("topology", "Which nodes and cables there are, and what they form");
  topology_->add_option("--socket", topology_options_.socket_path, kSocket);
  const auto form = [this](TopologyForm which) {
    return [this, which](std::int64_t) { topology_options_.form = which; };
  };
  CLI::Option* const json = topology_->add_flag_function(
      "--json", form(TopologyForm::kJson), "For programs (TopologyReply of diagnostics.proto)");
  CLI::Option* const dot =
      topology_->add_flag_function("--dot", form(TopologyForm::kDot), "A picture for Graphviz");
  CLI::Option* const svg =
      topology_->add_flag_function("--svg", form(TopologyForm::kSvg), "A picture");
  json->excludes(dot)->excludes(svg);
  dot->excludes(svg);
}

void DiagnosticVerbs::AddDoctor(CLI::App& app) {
  DoctorOptions& options = doctor_options_;
  doctor_ = app.add_subcommand("doctor", "What is wrong here and in the cluster, and its remedy");
  doctor_->add_option("--socket", options.socket_path, kSocket);
  doctor_->add_option("--config", options.config_file, "The daemon's configuration, where it does not run")
      ->type_name("FILE");
  CLI::Option* const json = doctor_->add_flag("--json", options.json, "For programs");
  doctor_->add_flag("--all", options.all, "Also what is well");
  CLI::Option* const fix =
      doctor_->add_flag("--fix", options.fix, "Say which commands would mend it")->excludes(json);
  doctor_->add_flag("--yes", options.yes, "And run those that are safe")->needs(fix);
  doctor_->add_flag("--codes", options.codes, "List all that can be found")->excludes(json);
}

void DiagnosticVerbs::AddPing(CLI::App& app) {
  PingOptions& options = ping_options_;
  ping_ = app.add_subcommand("ping", "Round trip and loss to a node, between the daemons");
  ping_->add_option("node", options.node, "Its name")->required();
  ping_->add_option("--socket", options.socket_path, kSocket);
  ping_->add_option("-c,--count", options.count, "How many (5)")->check(CLI::Range(1, 100000));
  AddDuration(*ping_, "-i,--interval", options.interval_ns, kMs, 3600'000 * kMs, "Between two (200ms)");
  AddDuration(*ping_, "-W,--timeout", options.timeout_ns, kMs, 10'000 * kMs, "Patience with each (1s)");
  ping_->add_option_function<std::string>(
      "-s,--size",
      [&options](const std::string& text) {
        options.payload_bytes = ParseBytes(text);
        if (!options.payload_bytes || *options.payload_bytes > 65536) {
          throw CLI::ValidationError("--size", "\"" + text + "\" is no size up to 64K");
        }
      },
      "Bytes each way (56)");
  ping_->add_flag("--json", options.json, "For programs: one object, at the end");
}

void DiagnosticVerbs::AddEvents(CLI::App& app) {
  EventsOptions& options = events_options_;
  events_ = app.add_subcommand("events", "What has happened to nodes, links, rails and jobs");
  events_->add_option("--socket", options.socket_path, kSocket);
  events_->add_option("-n,--last", options.last, "How many of those that have happened (20)");
  events_->add_flag("-f,--follow", options.follow, "And those that happen from now on");
  events_->add_flag("--json", options.json, "For programs: a line each (EventsReply of diagnostics.proto)");
}

void DiagnosticVerbs::AddBugreport(CLI::App& app) {
  BugreportOptions& options = bugreport_options_;
  bugreport_ = app.add_subcommand("bugreport", "An archive of all that helps to find a bug, without keys");
  bugreport_->add_option("--socket", options.socket_path, kSocket);
  bugreport_->add_option("--config", options.config_file,
      "The daemon's configuration, where it does not run")->type_name("FILE");
  bugreport_->add_option("-o,--output", options.output, "The archive (mlxcomm-bugreport-TIME.tar.gz)")
      ->type_name("FILE");
  bugreport_->add_flag("--json", options.json, "For programs: where the archive is, and what is in it");
}

std::optional<int> DiagnosticVerbs::Run() const {
  if (topology_->parsed()) return RunTopology(topology_options_);
  if (doctor_->parsed()) return RunDoctor(doctor_options_);
  if (ping_->parsed()) return RunPing(ping_options_);
  if (events_->parsed()) return RunEvents(events_options_);
  if (bugreport_->parsed()) return RunBugreport(bugreport_options_);
  return std::nullopt;
}

}  // namespace mlxcomm::ctl
