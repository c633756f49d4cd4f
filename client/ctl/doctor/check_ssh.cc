// Findings about hosts on which launch would start ranks by ssh.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"

namespace mlxcomm::ctl {
namespace {

// The host is one that launch accepts, so it is not an option and safe to paste into a shell.
Fix ByHand(const std::vector<std::string>& command) { return {{command}, /*safe=*/false}; }

void AddUnreached(const Facts& facts, const SshHostFacts& host, Findings& findings) {
  const std::string object = absl::StrCat("host ", host.host);
  const Findings::Values values = {
      {"message", host.message}, {"host", host.host}, {"local_network", LocalNetworkRemedy(facts)}};
  switch (host.answer) {
    case SshAnswer::kReached:
    case SshAnswer::kNoSsh: return;  // MC601 reports it once.
    case SshAnswer::kNameUnknown: return findings.Add("MC602", object, values);
    case SshAnswer::kRefused: return findings.Add("MC603", object, values);
    case SshAnswer::kNoRoute: return findings.Add("MC604/no_route", object, values);
    case SshAnswer::kNoAnswer: return findings.Add("MC604", object, values);
    case SshAnswer::kKeyUnknown: return findings.Add("MC605", object, values);
    case SshAnswer::kKeyChanged:
      return findings.Add("MC605/changed", object, values,
                          ByHand({"ssh-keygen", "-R", host.host.substr(host.host.rfind('@') + 1)}));
    case SshAnswer::kDenied:
      return findings.Add("MC606", object, values, ByHand({"ssh-copy-id", host.host}));
    case SshAnswer::kFailed: return findings.Add("MC607", object, values);
  }
}

bool CheckProgram(const Facts& facts, const SshHostFacts& host, Findings& findings) {
  const std::string object = absl::StrCat("host ", host.host);
  const Findings::Values values = {{"searched", host.searched},
                                   {"path", host.path},
                                   {"message", host.version_message},
                                   {"version", host.version},
                                   {"own", facts.own_version}};
  if (host.version.empty()) {
    findings.Add(host.path.empty() ? "MC608" : "MC608/broken", object, values);
    return false;
  }
  if (host.version == facts.own_version) return true;
  findings.Add("MC609", object, values);
  return false;
}

bool CheckDaemonThere(const Facts& facts, const SshHostFacts& host, Findings& findings) {
  const std::string object = absl::StrCat("host ", host.host);
  if (!host.daemon_answers) {
    findings.Add("MC610", object, {{"message", host.daemon_message}, {"host", host.host}});
    return false;
  }
  if (!facts.cluster.daemon_answers || host.node_id.empty()) return true;  // Nothing to compare.
  const v1::StatusReply& own = facts.cluster.status;
  const bool is_up = std::ranges::any_of(own.nodes(), [&host](const v1::NodeStatus& node) {
    return node.id() == host.node_id && node.state() != "lost";
  });
  if (is_up) return true;
  findings.Add("MC611", object,
               {{"node", host.node}, {"cluster", host.cluster}, {"own_cluster", own.cluster()}});
  return false;
}

}  // namespace

void CheckSsh(const Facts& facts, Findings& findings) {
  const SshFacts& ssh = facts.ssh;
  if (!ssh.asked) return;
  const auto no_ssh = std::ranges::find(ssh.hosts, SshAnswer::kNoSsh, &SshHostFacts::answer);
  if (no_ssh != ssh.hosts.end()) findings.Add("MC601", "ssh", {{"message", no_ssh->message}});
  for (const std::string& node : ssh.nameless) {
    findings.Add("MC612", absl::StrCat("node ", node));
  }
  if (ssh.hosts.empty() && ssh.nameless.empty()) {
    const char* const why = !ssh.of_cluster ? "all named hosts are this machine, which needs no ssh"
                            : facts.cluster.daemon_answers
                                ? "the daemon knows no other node"
                                : "no daemon answers, so other nodes are unknown";
    findings.Add("MC613", "ssh", {{"why", why}});
  }
  for (const SshHostFacts& host : ssh.hosts) {
    if (host.answer != SshAnswer::kReached) {
      AddUnreached(facts, host, findings);
      continue;
    }
    bool well = CheckProgram(facts, host, findings);
    if (!host.version.empty()) well = CheckDaemonThere(facts, host, findings) && well;
    if (!well) continue;
    findings.Add("MC614", absl::StrCat("host ", host.host),
                 {{"path", host.path},
                  {"version", host.version},
                  {"node", host.node},
                  {"cluster", host.cluster}});
  }
}

}  // namespace mlxcomm::ctl
