// mlxcommctl: shows and steers the daemon. One file a verb.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/ctl/command_table.h"
#include "client/ctl/diagnostic_verbs.h"
#include "client/ctl/quantities.h"
#include "client/ctl/render_status.h"
#include "client/ctl/verbs.h"

namespace {

using mlxcomm::ctl::BenchOptions;
using mlxcomm::ctl::CompletionOptions;
using mlxcomm::ctl::HostsImportOptions;
using mlxcomm::ctl::LaunchOptions;
using mlxcomm::ctl::PlanOptions;
using mlxcomm::ctl::RecordOptions;
using mlxcomm::ctl::SchemaOptions;

// A figure with a unit, into `value`; `form` tells how it is written.
template <typename Value>
CLI::Option* AddQuantity(CLI::App& app, const std::string& name, Value& value,
                         std::optional<std::uint64_t> (*parse)(std::string_view),
                         const std::string& form, const std::string& what) {
  const auto take = [&value, parse, name, form](const std::string& text) {
    const std::optional<std::uint64_t> parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(name, "\"" + text + "\" is not of the form " + form);
    value = *parsed;
  };
  return app.add_option_function<std::string>(name, take, what + ", as " + form);
}

// Shown by --help and completed; the daemon says what it takes.
constexpr char kPlans[] = "{ring,exchange,halving_doubling,tree,two_level}";
constexpr char kPlanned[] =
    "{all_reduce,reduce,reduce_scatter,broadcast,all_gather,all_gather_v,gather,scatter,all_to_all,"
    "all_to_all_v,send,barrier}";
constexpr char kMeasured[] = "{all_reduce,all_gather,reduce_scatter,broadcast,all_to_all,send_recv}";
constexpr char kDataTypes[] =
    "{float32,float16,bfloat16,float64,complex64,bool,int8,int16,int32,int64,uint8,uint16,uint32,uint64}";
constexpr char kOperators[] = "{sum,prod,min,max,mean,and,or}";

CLI::App* AddPlan(CLI::App& app, PlanOptions& options) {
  using namespace mlxcomm::ctl;
  CLI::App* const plan =
      app.add_subcommand("plan", "How an operation would be carried out, with cost and proof");
  plan->add_option("--op", options.operation, "The operation")->required()->type_name(kPlanned);
  plan->add_option("--nodes", options.nodes, "How many nodes")->required();
  plan->add_option("--ranks-per-node", options.ranks_per_node, "How many ranks on each (1)");
  AddQuantity(*plan, "--bytes", options.bytes, ParseBytes, "64M or 1.5G",
              "What each rank passes: all of it, or its block");
  plan->add_option("--dtype", options.data_type, "Type of the elements (float32)")->type_name(kDataTypes);
  plan->add_option("--operator", options.reduce_operator, "How a reduction combines (sum)")
      ->type_name(kOperators);
  plan->add_option("--root", options.root, "Rank of the root, where there is one (0)");
  plan->add_option("--plan", options.plan, "Which way (the cheapest)")->type_name(kPlans);
  AddQuantity(*plan, "--latency", options.latency_ns, ParseDuration, "30us",
              "Of a link, one way (as this node has it)");
  AddQuantity(*plan, "--bandwidth", options.bytes_per_second, ParseRate, "4.5G",
              "Of a link, bytes a second each way (as this node has it)");
  plan->add_option("--links", options.links_per_node,
                   "Links that a node fills at once (as this node has it)");
  plan->add_flag("--steps", options.steps, "Every step of every node");
  CLI::Option* const json =
      plan->add_flag("--json", options.json, "For programs (PlanReply of diagnostics.proto)");
  plan->add_flag("--dot", options.dot, "A picture for Graphviz; with --steps one of the steps")
      ->excludes(json);
  plan->add_option("--socket", options.socket_path, "The daemon's Unix socket");
  return plan;
}

void AddRecordOptions(CLI::App& verb, RecordOptions& options) {
  verb.add_option("--socket", options.socket_path, "The daemon's Unix socket");
  verb.add_option("--job", options.job, "Only this job's operations");
  verb.add_option("--group", options.group, "Only this group's, by its name or id");
}

CLI::App* AddRecord(CLI::App& app, RecordOptions& options) {
  CLI::App* const record =
      app.add_subcommand("record", "The last operations of this node: each phase, who came last");
  AddRecordOptions(*record, options);
  options.operations_max = 20;
  record->add_option("-n,--operations", options.operations_max,
                     "How many, the newest (20); 0: all that are still there");
  CLI::Option* const json =
      record->add_flag("--json", options.json, "For programs (FlightRecordReply of diagnostics.proto)");
  record->add_flag("--tracks", options.tracks, "With what each rail and worker did for them")
      ->needs(json);
  return record;
}

CLI::App* AddTrace(CLI::App& app, RecordOptions& options) {
  CLI::App* const trace = app.add_subcommand(
      "trace", "The same for Perfetto (https://ui.perfetto.dev): mlxcommctl trace > trace.json");
  AddRecordOptions(*trace, options);
  trace->add_option("-n,--operations", options.operations_max,
                    "How many, the newest (all that are still there)");
  trace->add_flag("--json", options.json, "Write to a terminal, too: a trace is JSON");
  return trace;
}

CLI::App* AddBench(CLI::App& app, BenchOptions& options) {
  using namespace mlxcomm::ctl;
  CLI::App* const bench = app.add_subcommand(
      "bench", "Measure operations between the ranks of a job: time, bandwidth, values checked");
  CLI::Option* const ranks =
      bench->add_option("-n,--ranks", options.ranks, "Start so many ranks on this machine")
          ->check(CLI::Range(1, 64));
  CLI::Option* const rank =
      bench->add_option("--rank", options.rank, "Which rank this is (as the launcher says)");
  CLI::Option* const size =
      bench->add_option("--size", options.size, "Of how many (as the launcher says)");
  rank->needs(size)->excludes(ranks);
  size->needs(rank)->excludes(ranks);
  bench->add_option("--op", options.operation, "The operation (all_reduce)")->type_name(kMeasured);
  bench->add_option("-d,--dtype", options.data_type, "Type of the elements (float32)")
      ->type_name(kDataTypes);
  bench->add_option("-o,--operator", options.reduce_operator, "How a reduction combines (sum)")
      ->type_name(kOperators);
  AddQuantity(*bench, "-b,--from", options.from_bytes, ParseBytes, "64M or 1.5G", "The first size (8)");
  AddQuantity(*bench, "-e,--to", options.to_bytes, ParseBytes, "64M or 1.5G", "The last size (128M)");
  bench->add_option("-f,--factor", options.factor, "From one size to the next (4)");
  bench->add_option("-i,--iterations", options.iterations, "Operations timed for each size (20)");
  bench->add_option("-w,--warm-up", options.warm_up, "Operations before them (5)");
  bench->add_flag("!--no-check", options.check, "Do not check values");
  bench->add_flag("--json", options.json, "For programs: one object, when all is measured");
  bench->add_option("--job", options.job, "The job's name, the same on all ranks");
  bench->add_option("--socket", options.socket_path, "The daemon's Unix socket");
  return bench;
}

CLI::App* AddCompletion(CLI::App& app, CompletionOptions& options) {
  CLI::App* const completion =
      app.add_subcommand("completion", "Completion for a shell: source <(mlxcommctl completion bash)");
  completion->add_option("shell", options.shell, "Which shell")->type_name("{bash,zsh,fish}");
  completion->add_flag("--json", options.json, "For programs: every verb and option");
  return completion;
}

CLI::App* AddSchema(CLI::App& app, SchemaOptions& options) {
  CLI::App* const schema = app.add_subcommand("schema", "The JSON Schema of what a verb's --json prints");
  schema->add_option("verb", options.verb, "The verb (shows which there are)");
  schema->add_flag("--json", options.json, "For programs: which verbs there are");
  return schema;
}

void AddLaunch(CLI::App& app, LaunchOptions& options) {
  CLI::App* const launch =
      app.add_subcommand("launch", "Start the ranks of a job, here or on other hosts by ssh");
  launch->add_option("-n,--ranks,--ranks-per-node,--repeat-hosts", options.ranks,
                     "How many ranks on each host (1, or what the hostfile says)")
      ->check(CLI::Range(1, 64));
  CLI::Option* const hosts =
      launch->add_option("--hosts", options.hosts, "Hosts for ssh: mac-1,mac-2 or mac-[1-4] (this one)");
  CLI::Option* const hostfile =
      launch->add_option("--hostfile", options.hostfile, "Hosts from a file of MLX, MPI or `hosts import`")
          ->type_name("FILE");
  launch->add_option("--nodes", options.nodes, "Nodes of this cluster: all, or a,b")
      ->excludes(hosts)
      ->excludes(hostfile);
  hosts->excludes(hostfile);
  launch->add_option("--env", options.environment, "NAME=VALUE for the ranks; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  launch->add_option("--cwd", options.directory, "Where they start (here, if it is there)")->type_name("DIR");
  launch->add_option("--python", options.python, "Run the command with this Python")->type_name("FILE");
  launch->add_option("--ssh", options.ssh, "How ssh is called: \"ssh -p 2222\" (ssh)");
  launch->add_option("--job", options.job, "The job's name (default: one of its own)");
  launch->add_option("--socket", options.socket_path, "The daemon's Unix socket");
  launch->add_flag("--verbose", options.verbose, "Say what is started, and how it ends");
  launch->add_option("command", options.command, "-- PROGRAM [ARGUMENT...]")->required();
  launch->positionals_at_end();
}

CLI::App* AddHostsImport(CLI::App& app, HostsImportOptions& options) {
  CLI::App* const hosts = app.add_subcommand("hosts", "Lists of hosts");
  hosts->require_subcommand(1);
  CLI::App* const import = hosts->add_subcommand(
      "import", "Hosts from a file of MLX or MPI, for launch --hostfile or as configurations");
  import->add_option("file", options.file, "The file")->required()->type_name("FILE");
  import->add_option("-o,--output", options.output, "Where the hosts go (standard output)")
      ->type_name("FILE");
  import->add_option("--config-dir", options.config_dir,
                     "Write a configuration for each node there, in place of the hosts")
      ->type_name("DIR");
  import->add_option("--cluster", options.cluster, "The cluster's name in them (default)");
  import->add_option("--key-file", options.key_file, "Where the key is (/etc/mlxcommd/key)")
      ->type_name("FILE");
  import->add_option("--port", options.port, "The daemons' port (7470)")->check(CLI::Range(1, 65535));
  import->add_option("--links", options.links, "ring: to the next host; all: to every one (by the file)")
      ->check(CLI::IsMember({"ring", "all"}));
  import->add_flag("--json", options.json, "For programs: the hosts, and which configurations were written");
  return import;
}

struct ClusterVerbs {
  CLI::App* create;
  CLI::App* join;
  CLI::App* show;
  CLI::App* rotate;
};

ClusterVerbs AddCluster(CLI::App& app, mlxcomm::ctl::ClusterOptions& options) {
  CLI::App* const cluster =
      app.add_subcommand("cluster", "The cluster's key: make it, take it, change it");
  cluster->require_subcommand(1);
  CLI::App* const key = cluster->add_subcommand("key", "Show or change the key");
  key->require_subcommand(1);
  const ClusterVerbs verbs = {
      cluster->add_subcommand("create", "Make a key, for a new cluster"),
      cluster->add_subcommand("join", "Take the key of another machine: asks for its code"),
      key->add_subcommand("show", "The key's code, for the other machines"),
      key->add_subcommand("rotate", "Change the key while jobs run; the old one is still accepted")};
  for (CLI::App* const verb : {verbs.create, verbs.join, verbs.show, verbs.rotate}) {
    verb->add_flag("--json", options.json, "For programs: what there is now, and the code where it is shown");
    verb->add_option("--key-file", options.key_file, "Of this machine (where mlxcommd looks)");
    verb->add_option("--socket", options.socket_path, "The daemon's Unix socket");
  }
  verbs.create->add_option("--name", options.name, "What the cluster is called");
  verbs.join->add_option("--from", options.from, "A key file to take it from, instead of asking");
  verbs.show->add_flag("--id", options.id_only, "Not the key, only what is no secret");
  CLI::Option* const take = verbs.rotate->add_flag(
      "--take", options.take, "Take the new key of the machine that changed it: asks for its code");
  verbs.rotate->add_option("--from", options.from, "A key file to take it from, instead of asking")
      ->needs(take);
  CLI::Option* const finish =
      verbs.rotate->add_flag("--finish", options.finish, "Accept the old key no more")->excludes(take);
  verbs.rotate->add_flag("--force", options.force, "Also where a node lacks the new key")
      ->needs(finish);
  return verbs;
}

// What is wrong, and where to read more: of the verb that was called.
std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  std::string verb = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    verb += " " + app->get_name();
  }
  std::string what = error.what();
  if (what == "A subcommand is required") {
    const std::vector<std::string> words = app->remaining();
    what = words.empty() ? "a verb of " + verb + " is required"
                         : verb + " has no verb \"" + mlxcomm::ctl::Shown(words.front()) + "\"";
  }
  return "mlxcommctl: " + what + "\n" + verb + " --help says more\n";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace mlxcomm::ctl;

  CLI::App app{"mlxcommctl: shows and steers mlxcommd.\n"
               "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon, 4 doctor has "
               "warnings; launch: that of the "
               "first rank that failed."};
  app.name("mlxcommctl");
  app.set_version_flag("--version", MLXCOMM_VERSION);
  app.require_subcommand(1);
  app.failure_message(UsageError);

  StatusOptions status_options;
  CLI::App* const status = app.add_subcommand("status", "Nodes, links, jobs, who waits for whom");
  status->add_option("--socket", status_options.socket_path, "The daemon's Unix socket");
  status->add_flag("--json", status_options.json, "For programs (StatusReply of diagnostics.proto)");

  status->add_flag("--watch", status_options.watch, "Again and again, until Ctrl-C");
  AddDuration(*status, "--interval", status_options.interval_ns, 50'000'000, 3600'000'000'000,
              "Between two looks (1s)");

  const DiagnosticVerbs diagnostics(app, argv[0]);

  PlanOptions plan_options;
  const CLI::App* const plan = AddPlan(app, plan_options);

  RecordOptions record_options;
  const CLI::App* const record = AddRecord(app, record_options);
  RecordOptions trace_options;
  const CLI::App* const trace = AddTrace(app, trace_options);

  BenchOptions bench_options;
  bench_options.called = argv[0];
  const CLI::App* const bench = AddBench(app, bench_options);

  CompletionOptions completion_options;
  const CLI::App* const completion = AddCompletion(app, completion_options);
  SchemaOptions schema_options;
  const CLI::App* const schema = AddSchema(app, schema_options);
  ClusterOptions cluster_options;
  const ClusterVerbs cluster = AddCluster(app, cluster_options);

  LaunchOptions launch_options;
  launch_options.called = argv[0];
  AddLaunch(app, launch_options);
  const CLI::App* const agent =
      app.add_subcommand("launch-agent", "What launch starts on another host")->group("");
  HostsImportOptions import_options;
  const CLI::App* const import = AddHostsImport(app, import_options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (completion->parsed()) return RunCompletion(completion_options, TableOf(app));
  if (schema->parsed()) return RunSchema(schema_options);
  if (status->parsed()) return RunStatus(status_options);
  if (const std::optional<int> code = diagnostics.Run()) return *code;
  if (record->parsed()) return RunRecord(record_options);
  if (trace->parsed()) return RunTrace(trace_options);
  if (bench->parsed()) return RunBench(bench_options);
  if (agent->parsed()) return RunLaunchAgent(argv[0]);
  if (import->parsed()) return RunHostsImport(import_options);
  if (cluster.create->parsed()) return RunClusterCreate(cluster_options);
  if (cluster.join->parsed()) return RunClusterJoin(cluster_options);
  if (cluster.show->parsed()) return RunClusterKeyShow(cluster_options);
  if (cluster.rotate->parsed()) return RunClusterKeyRotate(cluster_options);
  return plan->parsed() ? RunPlan(plan_options) : RunLaunch(launch_options);
}
