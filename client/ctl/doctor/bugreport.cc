// The verb bugreport collects diagnostics in one archive, which only its owner can read.
// WithoutSecrets filters every file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/cluster/secrets.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/doctor/collect.h"
#include "client/ctl/doctor/diagnosis.h"
#include "client/ctl/doctor/render_doctor.h"
#include "client/ctl/doctor/section.h"
#include "client/ctl/events/render_event.h"
#include "client/ctl/record/render_record.h"
#include "client/ctl/service/service_files.h"
#include "client/ctl/status/render_status.h"
#include "client/ctl/topology/render_topology.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/key/key_file.h"
#include "proto/system/program.h"
#include "proto/system/small_file.h"
#include "proto/types/version.h"

namespace mlxcomm::ctl {
namespace {

struct BugreportOptions {
  std::string called;  // argv[0].
  std::string socket_path;
  std::string config_file;
  std::string output;  // Empty means mlxcomm-bugreport-TIME.tar.gz in the current folder.
  bool json = false;
  std::vector<const Section*> sections;
};

struct ReportFile {
  std::string name;
  std::string what;
  std::string text;
  bool printed = false;
};

template <typename Message>
std::string JsonOrWhyNot(const Failure& failure, const Message& message) {
  std::string text;
  if (!failure.ok()) return "\"" + Shown(failure.message) + "\"\n";
  return ToJson(message, text).ok() ? text : "";
}

std::string Said(const std::vector<std::string>& words) {
  const auto output = RunProgram(words, {.with_errors = true});
  std::string text = output.ok() ? output->text : std::string(output.status().message());
  while (text.ends_with('\n')) text.pop_back();
  return "$ " + CommandLine(words) + "\n" + text + "\n";
}

std::string System() {
  std::string text = Said({"uname", "-a"});
#if defined(__APPLE__)
  text += Said({"sw_vers"}) + Said({"ifconfig", "-a"}) +
          Said({"system_profiler", "SPThunderboltDataType"}) +
          Said({"networksetup", "-listallhardwareports"}) + Said({"pmset", "-g"});
#else
  text += ReadFileText("/etc/os-release") + "\n" + Said({"ip", "-s", "address"}) +
          Said({"ip", "route"}) + Said({"ip", "-6", "route"});
#endif
  return text;
}

std::string TextOf(const Section& section, const std::string& config_file) {
  std::string text = section.try_devices(config_file) + "\nSystem\n";
  for (const std::vector<std::string>& words : section.programs()) text += Said(words);
  return text;
}

std::string Tail(const std::string& path) {
  constexpr off_t kTailBytes = 256 * 1024;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return path + ": " + std::strerror(errno) + "\n";
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  ::lseek(descriptor, std::max<off_t>(size - kTailBytes, 0), SEEK_SET);
  std::string text(static_cast<std::size_t>(kTailBytes), '\0');
  const ssize_t count = ::read(descriptor, text.data(), text.size());
  ::close(descriptor);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

std::string LogOf(const std::string& config) {
  const std::string file = SettingIn(config, "file");
#if defined(__APPLE__)
  // launchd's file has what the daemon prints before its own log is open.
  return (file.empty() ? std::string() : Tail(file)) + Tail("/var/log/mlxcommd.log");
#else
  if (!file.empty()) return Tail(file);
  return Said({"journalctl", "-u", "mlxcommd", "-n", "1000", "--no-pager", "-o", "short-iso"});
#endif
}

std::vector<ReportFile> Gather(const BugreportOptions& options, const std::string& config_file,
                               const std::string& config) {
  std::vector<ReportFile> files;
  v1::StatusReply status;
  const Failure answered = FetchStatus(options.socket_path, status);
  v1::TopologyReply topology;
  const Failure drawn = FetchTopology(options.socket_path, topology);
  v1::DoctorReply checkups;
  const Failure checked = FetchCheckups(options.socket_path, checkups);
  v1::FlightRecordRequest all;
  all.set_with_tracks(true);
  v1::FlightRecordReply record;
  const Failure recorded = FetchRecord(options.socket_path, all, record);
  std::string events;
  v1::EventsRequest kept;
  kept.set_last(1024);
  const Failure read = ReadEvents(options.socket_path, kept, [&events](const auto& event) {
    events += RenderEvent(event, false);
    return true;
  });
  if (!read.ok()) events += Shown(read.message) + "\n";
  const std::vector<Finding> findings =
      Diagnose({OwnPath(options.called), options.socket_path, config_file});
  const std::string details =
      answered.ok() ? RenderStatusDetails(status, false) : Shown(answered.message) + "\n";

  files.push_back(
      {"versions.txt", "versions of mlxcommctl and mlxcommd",
       std::string("mlxcommctl ") + kSoftwareVersion + "\n" + Said({"mlxcommd", "--version"})});
  files.push_back({"status.txt", "nodes, links, jobs", details});
  files.push_back({"status.json", "the same as JSON", JsonOrWhyNot(answered, status)});
  files.push_back({"topology.txt", "the cables, and the shape they form",
                   drawn.ok() ? RenderTopology(topology, false) : Shown(drawn.message) + "\n"});
  files.push_back({"topology.json", "the same as JSON", JsonOrWhyNot(drawn, topology)});
  files.push_back(
      {"nodes.json", "each node's system, clock and interfaces", JsonOrWhyNot(checked, checkups)});
  files.push_back({"doctor.txt", "doctor's findings", RenderFindings(findings, true, false)});
  files.push_back({"doctor.json", "the same as JSON", FindingsAsJson(findings)});
  files.push_back({"events.txt", "the event log", events});
  files.push_back({"record.txt", "the last operations",
                   recorded.ok() ? RenderRecord(record) : Shown(recorded.message) + "\n"});
  files.push_back({"record.json", "the same as JSON", JsonOrWhyNot(recorded, record)});
  files.push_back({"config.textproto", "the configuration", config});
  files.push_back({"log.txt", "the end of the daemon's log", LogOf(config)});
  for (const Section* const section : options.sections) {
    files.push_back({absl::StrCat(section->name, ".txt"),
                     absl::StrCat("the trials of ", section->devices),
                     details + "\n" + TextOf(*section, config.empty() ? "" : config_file),
                     /*printed=*/true});
  }
  files.push_back({"system.txt", "system, interfaces, addresses, routes", System()});
  return files;
}

// A temporary folder, removed with this object.
class WorkFolder {
 public:
  WorkFolder() {
    const char* const place = std::getenv("TMPDIR");
    path_ = std::string(place != nullptr && *place != '\0' ? place : "/tmp") + "/mlxcomm.XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~WorkFolder() {
    if (!path_.empty()) static_cast<void>(RunProgram({"rm", "-rf", path_}));
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void Add(v1::BugreportReceipt& receipt, const std::string& name, const std::string& what) {
  v1::BugreportFile& file = *receipt.add_files();
  file.set_name(name);
  file.set_what(what);
}

// The keys that this user may read, which the report must not contain. An empty `config_file` is
// set to the daemon's, if one answers.
std::vector<std::string> FindKeys(const std::string& socket_path, std::string& config_file) {
  std::vector<std::string> keys;
  const auto take = [&keys](const std::string& path) {
    if (path.empty()) return;
    for (std::string& key : KeysIn(ReadFileText(path))) keys.push_back(std::move(key));
  };
  const v1::NodeCheckup own = FetchOwnCheckup(socket_path);
  take(own.key_file());
  if (config_file.empty()) config_file = own.config_file();
  take(SettingIn(ReadFileText(config_file.empty() ? kServiceConfig : config_file), "key_file"));
  take(DefaultKeyFile());
  return keys;
}

int FailInside(const std::string& what) {
  return ReportFailure({FailureCode::kInternal, kNoRank, what});
}

int RunBugreport(const BugreportOptions& options) {
  std::string config_file = options.config_file;
  const std::vector<std::string> keys = FindKeys(options.socket_path, config_file);
  if (config_file.empty()) config_file = kServiceConfig;
  const std::string config = ReadFileText(config_file);
  const std::string name = "mlxcomm-bugreport-" + TimeForName();
  const std::string output = options.output.empty() ? name + ".tar.gz" : options.output;
  const WorkFolder work;
  const std::string folder = work.path() + "/" + name;
  if (work.path().empty() || ::mkdir(folder.c_str(), 0700) != 0) {
    return FailInside("cannot create a folder for the report: set TMPDIR to a writable one");
  }
  std::string contents =
      "Contents of this report. Keys were removed from every file, but names and addresses of "
      "machines and jobs were not: check it before you share it.\n\n";
  v1::BugreportReceipt receipt;
  receipt.set_archive(output);
  Add(receipt, "README.txt", "the contents of this report");
  std::string printed;
  for (ReportFile& file : Gather(options, config_file, config)) {
    Add(receipt, file.name, file.what);
    contents += file.name + "  " + file.what + "\n";
    const std::string text = WithoutSecrets(std::move(file.text), keys);
    if (file.printed) printed += text + "\n";
    if (!WriteNewFile(folder + "/" + file.name, text)) {
      return FailInside("cannot write " + folder + "/" + file.name + ": " + std::strerror(errno));
    }
  }
  if (!WriteNewFile(folder + "/README.txt", contents)) return FailInside("cannot write README.txt");
  // Created first, so that others cannot read it while it grows, and no file is replaced.
  if (!WriteNewFile(output, ""))
    return FailInside("cannot create " + output + ": " + std::strerror(errno));
  const auto packed = RunProgram({"tar", "-czf", output, "-C", work.path(), name},
                                 {.timeout_ns = 60'000'000'000, .with_errors = true});
  if (!packed.ok() || packed->exit_code != 0) {
    ::unlink(output.c_str());
    return FailInside("tar: " +
                      (packed.ok() ? packed->text : std::string(packed.status().message())));
  }
  // NOLINTNEXTLINE(performance-move-const-arg): JsonOf takes an rvalue.
  return WriteOut(options.json ? JsonOf(std::move(receipt)) : printed + output + "\n" + contents,
                  "report");
}

}  // namespace

Run AddBugreport(CLI::App& bugreport, const Invocation& invocation) {
  const auto options = std::make_shared<BugreportOptions>();
  options->called = invocation.called;
  AddSocket(bugreport, options->socket_path);
  AddConfig(bugreport, options->config_file);
  bugreport
      .add_option("-o,--output", options->output, "File to write (mlxcomm-bugreport-TIME.tar.gz)")
      ->type_name("FILE");
  std::string footer =
      R"(The archive has versions, status, topology, findings, events, operations, the
configuration, the end of the log, interfaces and routes. Anything that looks like a key is
removed, but names and addresses of machines and jobs are not: check it before you share
it. Only you can read it, and it replaces no file.)";
  for (const Section* const section : Sections()) {
    const auto add = [options, section] { options->sections.push_back(section); };
    bugreport.add_flag_callback(
        absl::StrCat("--", section->name), add,
        absl::StrCat("Try what ", section->devices, " can do, each in its own process"));
    absl::StrAppend(&footer, "\n\n", section->footer);
  }
  bugreport.add_flag("--json", options->json, "Print JSON: the archive's path and contents");
  bugreport.footer(footer);
  return [options] { return RunBugreport(*options); };
}

}  // namespace mlxcomm::ctl
