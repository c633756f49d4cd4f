// mlxcommctl hosts: import reads host files of MLX and MPI; export makes MLX's from the daemons' fabric.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/hosts/exported_hosts.h"
#include "proto/system/small_file.h"

namespace mlxcomm::ctl {
namespace {

struct HostsImportOptions {
  std::string file;
  std::string output;  // Empty: standard output.
  bool json = false;
};

bool IsAddress(const std::string& text) {
  in6_addr address;
  const std::string without_zone = text.substr(0, text.find('%'));
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, without_zone.c_str(), &address) == 1;
}

// Returns a warning for a name in `ips`, which MLX accepts if each host can resolve it.
std::string NameAmongIps(const Hostfile& file) {
  for (const HostEntry& host : file.hosts) {
    for (const std::string& ip : host.ips) {
      if (!IsAddress(ip))
        return "ips of host " + Shown(host.name) + ": \"" + Shown(ip) +
               "\" is not an IP address; every host must be able to resolve it";
    }
  }
  return {};
}

int RunHostsImport(const HostsImportOptions& options) {
  Hostfile file;
  const Failure failure = ReadHostfile(options.file, file);
  if (!failure.ok()) return Fail(kExitFailed, failure.message);
  for (const std::string& note : {NameAmongIps(file), file.note}) {
    if (!note.empty())
      std::fprintf(stderr, "mlxcommctl: %s: %s\n", options.file.c_str(), note.c_str());
  }
  const std::string text = HostfileJson(file);
  if (!options.output.empty()) {
    std::ofstream output(options.output, std::ios::binary);
    output << text;
    output.close();
    if (!output.good()) {
      return Fail(kExitFailed, "cannot write " + options.output + ": " + std::strerror(errno));
    }
    if (!options.json) return 0;
  }
  return WriteOut(text, "hosts");
}

struct HostsExportOptions {
  std::string socket_path;
  std::string output;                  // Empty, or "-": standard output.
  std::string nodes;                   // "all", or node names; empty: all.
  std::string rank_order;              // Node names in rank order.
  std::string backend;                 // Empty: the best available.
  std::vector<std::string> ssh_names;  // "NODE=HOST".
  bool force = false;                  // Replaces an existing file.
  bool json = false;
};

Failure FetchFabric(const std::string& socket_path, Fabric& fabric) {
  Failure failure = FetchStatus(socket_path, fabric.status);
  if (failure.ok()) failure = FetchTopology(socket_path, fabric.topology);
  if (failure.ok()) failure = FetchCheckups(socket_path, fabric.checkups);
  return failure;
}

Failure ReadWishes(const HostsExportOptions& options, ExportWishes& wishes) {
  wishes.backend = options.backend;
  wishes.keep_order = !options.rank_order.empty();
  const std::string& names = wishes.keep_order ? options.rank_order : options.nodes;
  if (wishes.keep_order || (!names.empty() && names != "all")) {
    Hostfile listed;
    const std::string called = wishes.keep_order ? "--rank-order" : "--nodes";
    if (Failure failure = ParseHostList(called, names, listed); !failure.ok()) return failure;
    for (const HostEntry& one : listed.hosts) wishes.nodes.push_back(one.name);
  }
  for (const std::string& text : options.ssh_names) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return Invalid("--ssh-name: expected NODE=HOST, got \"" + text + "\"");
    wishes.ssh_names.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return {};
}

int Write(const HostsExportOptions& options, const std::string& text) {
  const bool written = options.force ? WriteWhole(options.output, text, Placing::kReplace)
                                     : WriteNewFile(options.output, text);
  if (written) return 0;
  if (errno == EEXIST && !options.force) {
    return Fail(kExitFailed,
                options.output + " already exists: choose another file, or use --force");
  }
  return Fail(kExitFailed, "cannot write " + options.output + ": " + std::strerror(errno));
}

int RunHostsExport(const HostsExportOptions& options) {
  ExportWishes wishes;
  if (const Failure failure = ReadWishes(options, wishes); !failure.ok())
    return Fail(kExitUsage, failure.message);
  Fabric fabric;
  if (const Failure failure = FetchFabric(options.socket_path, fabric); !failure.ok())
    return ReportFailure(failure);
  ExportedHosts exported;
  if (const Failure failure = ExportHosts(fabric, wishes, exported); !failure.ok())
    return Fail(kExitFailed, failure.message);
  const std::string text = HostfileJson(exported.file);
  const bool to_file = !options.output.empty() && options.output != "-";
  if (to_file) {
    if (const int code = Write(options, text); code != 0) return code;
  }
  for (const std::string& note : exported.notes)
    std::fprintf(stderr, "mlxcommctl: %s\n", note.c_str());
  if (options.json) return WriteOut(ExportedJson(exported), "hosts");
  return to_file ? 0 : WriteOut(text, "hosts");
}

}  // namespace

Run AddHostsImport(CLI::App& verb, const Invocation&) {
  const auto options = std::make_shared<HostsImportOptions>();
  verb.add_option("file", options->file, "Host file to read")->required()->type_name("FILE");
  verb.add_option("-o,--output", options->output, "File to write (standard output)")
      ->type_name("FILE");
  verb.add_flag("--json", options->json, "Print JSON: the hosts, even with --output");
  verb.footer(
      R"(Reads MLX's lists and objects, and MPI's hostfiles (slots=, user=, host:2, node[01-04]). An
error names the file and line, or the field, and what was expected. The output is MLX's
object, with `slots` for hosts with several ranks; mlx.launch can read it.)");
  return [options] { return RunHostsImport(*options); };
}

Run AddHostsExport(CLI::App& verb, const Invocation&) {
  const auto options = std::make_shared<HostsExportOptions>();
  verb.add_option("-o,--output", options->output, "File to write; - is standard output (-)")
      ->type_name("FILE");
  verb.add_flag("--force", options->force, "Replace an existing file");
  CLI::Option* const nodes = verb.add_option("--nodes", options->nodes,
                                             "Nodes to list: all, or mac-1,mac-2 (all that are up)")
                                 ->check(NotEmpty("all, or nodes"))
                                 ->type_name("NODES");
  verb.add_option("--rank-order", options->rank_order,
                  "Nodes in the order of their ranks (along the cables)")
      ->check(NotEmpty("nodes (omit --rank-order for the order of the cables)"))
      ->type_name("NODES")
      ->excludes(nodes);
  verb.add_option("--backend", options->backend, "Backend for mlx.launch (the best available)")
      ->type_name("{ring,jaccl,jaccl-ring}")
      ->check(CLI::IsMember({"ring", "jaccl", "jaccl-ring"}));
  verb.add_option("--ssh-name", options->ssh_names,
                  "Use HOST for ssh to NODE, as NODE=HOST; repeatable")
      ->type_name("NAME")
      ->take_all()
      ->allow_extra_args(false);
  AddSocket(verb, options->socket_path);
  verb.add_flag("--json", options->json, "Print JSON: the hosts, with details");
  verb.footer(
      R"(If possible, each host shares a cable with the next, and the last with the first. `ips` are
the ends of a host's cables to the previous host; `rdma` lists its devices if every pair of
hosts (with jaccl-ring: of neighbours) has one. MLX needs IPv4: a host without such
addresses on its cables gets one that all others reach, or one that no daemon has tried.
Problems are reported on standard error. mlxcomm itself needs none of these addresses.)");
  return [options] { return RunHostsExport(*options); };
}

}  // namespace mlxcomm::ctl
