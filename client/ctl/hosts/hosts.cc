// mlxcommctl hosts import: hosts in the formats of MLX and MPI, as our own file or as
// configurations of daemons.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/hosts/hostfile.h"
#include "client/ctl/hosts/imported_config.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

// Hosts as others write them, as our own file of hosts or as configurations.
struct HostsImportOptions {
  std::string file;
  std::string output;      // Empty: standard output.
  std::string config_dir;  // A folder for a configuration for each node.
  std::string cluster;     // Empty: the key's name, so configurations have none.
  std::string key_file = "/etc/mlxcommd/key";
  std::string links;  // "ring", "all"; empty: by the file.
  unsigned port = 7470;
  bool json = false;
};

int Print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  return Fail(kExitFailed, std::string("cannot write to standard output: ") + std::strerror(errno));
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

int WriteConfigs(const Hostfile& file, const HostsImportOptions& options) {
  std::vector<ImportedConfig> configs;
  const ImportOptions wanted{.path = options.file,
                             .cluster = options.cluster,
                             .key_file = options.key_file,
                             .port = static_cast<std::uint16_t>(options.port),
                             .links = options.links};
  const Failure failure = MakeConfigs(file, wanted, configs);
  if (!failure.ok()) return Fail(kExitFailed, failure.message);
  if (::mkdir(options.config_dir.c_str(), 0777) != 0 && errno != EEXIST) {
    return Fail(kExitFailed, "cannot make " + options.config_dir + ": " + std::strerror(errno));
  }
  std::vector<std::string> paths;
  for (const ImportedConfig& config : configs) {
    const std::string path = options.config_dir + "/" + config.node_name + ".textproto";
    if (!WriteFile(path, config.text)) {
      return Fail(kExitFailed, "cannot write " + path + ": " + std::strerror(errno));
    }
    paths.push_back(path);
  }
  const std::string links = options.links.empty() ? LinksOf(file) : options.links;
  std::string listed;
  for (const std::string& path : paths) listed += path + "\n";
  const int code = Print(options.json ? ImportedJson(file, links, paths) : listed);
  if (code != 0) return code;
  std::fprintf(
      stderr,
      "mlxcommctl: %s (--links); on each node: mlxcommd --config FILE, with the same key in %s\n",
      links == "ring" ? "each node connects to the next" : "each node connects to all after it",
      options.key_file.c_str());
  return 0;
}

int RunHostsImport(const HostsImportOptions& options) {
  Hostfile file;
  const Failure failure = ReadHostfile(options.file, file);
  if (!failure.ok()) return Fail(kExitFailed, failure.message);
  if (!options.config_dir.empty()) return WriteConfigs(file, options);
  const std::string text = HostfileJson(file);
  if (!options.output.empty()) {
    if (!WriteFile(options.output, text)) {
      return Fail(kExitFailed, "cannot write " + options.output + ": " + std::strerror(errno));
    }
    if (!options.json) return 0;
  }
  return Print(text);
}

}  // namespace

Run AddHostsImport(CLI::App& verb, const Invocation&) {
  const auto made = std::make_shared<HostsImportOptions>();
  HostsImportOptions& options = *made;
  verb.add_option("file", options.file, "The file")->required()->type_name("FILE");
  verb.add_option("-o,--output", options.output, "Where the hosts go (standard output)")
      ->type_name("FILE");
  verb.add_option("--config-dir", options.config_dir,
                  "Write a configuration for each node there, in place of the hosts")
      ->type_name("DIR");
  verb.add_option("--cluster", options.cluster,
                  "The cluster's name in them (none: that which the key came with)");
  verb.add_option("--key-file", options.key_file, "Where the key is (/etc/mlxcommd/key)")
      ->type_name("FILE");
  verb.add_option("--port", options.port, "The daemons' port (7470)")->check(CLI::Range(1, 65535));
  verb.add_option("--links", options.links,
                  "ring: to the next host; all: to every one (by the file)")
      ->check(CLI::IsMember({"ring", "all"}));
  verb.add_flag("--json", options.json,
                "For programs: the hosts, and which configurations were written");
  verb.footer(
      R"(Reads MLX's lists and objects, and MPI's hostfiles (slots=, user=, host:2, node[01-04]). A
mistake is reported with file and line, or field, and the expected form. The output is
MLX's object, with `slots` for a host that has several ranks; mlx.launch reads it as well.)");
  return [made] { return RunHostsImport(*made); };
}

}  // namespace mlxcomm::ctl
