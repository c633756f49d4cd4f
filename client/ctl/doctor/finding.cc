#include "client/ctl/doctor/finding.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "proto/types/invariant.h"

namespace mlxcomm::ctl {
namespace {

constexpr auto kKinds = std::to_array<FindingKind>({
    {"MC101", Severity::kError, "no daemon answers"},
    {"MC102", Severity::kError, "the configuration has mistakes"},
    {"MC103", Severity::kError, "the key file cannot be used, or others can read it"},
    {"MC104", Severity::kWarning, "the daemon has no neighbours configured and listens to none"},
    {"MC105", Severity::kWarning, "mlxcommctl and the daemon are of different versions"},
    {"MC106", Severity::kOk, "the daemon answers"},
    {"MC107", Severity::kError, "a library of the service is not there"},
    {"MC108", Severity::kWarning, "the service runs code that others than root may change"},
    {"MC201", Severity::kError, "a Thunderbolt interface is a member of a bridge"},
    {"MC202", Severity::kWarning, "an interface is switched off"},
    {"MC203", Severity::kNote, "an interface has no IPv6 link-local address"},
    {"MC204", Severity::kWarning, "the firewall may keep neighbours out"},
    {"MC205", Severity::kError, "the system keeps the daemon from a neighbour (no route to host)"},
    {"MC206", Severity::kError, "a neighbour refuses the connection"},
    {"MC207", Severity::kError, "a neighbour does not answer"},
    {"MC208", Severity::kWarning, "a neighbour's name is not known"},
    {"MC209", Severity::kError, "a neighbour has another key or cluster"},
    {"MC210", Severity::kWarning, "hellos cannot be sent on an interface"},
    {"MC211", Severity::kWarning, "other clusters are heard, but no neighbour"},
    {"MC212", Severity::kWarning, "there is no interface to look for neighbours on"},
    {"MC213", Severity::kError, "two machines have the same node id"},
    {"MC214", Severity::kNote, "no neighbour is heard"},
    {"MC301", Severity::kWarning, "a cable is plugged in but carries nothing"},
    {"MC302", Severity::kWarning, "a cable leads back to this machine"},
    {"MC303", Severity::kNote, "cables are paired differently than they could be"},
    {"MC304", Severity::kWarning, "a Thunderbolt link is slower than its port"},
    {"MC305", Severity::kWarning, "a cable of a link is down"},
    {"MC306", Severity::kWarning, "an RDMA device's port is not active"},
    {"MC307", Severity::kNote, "RDMA is not enabled"},
    {"MC308", Severity::kOk, "Thunderbolt ports"},
    {"MC309", Severity::kWarning, "a neighbour is heard, but not linked"},
    {"MC310", Severity::kNote, "there is no library of RDMA"},
    {"MC311", Severity::kNote, "there is no RDMA device"},
    {"MC312", Severity::kNote, "RDMA needs Thunderbolt 5"},
    {"MC313", Severity::kWarning, "an RDMA device does not know its cable's address"},
    {"MC314", Severity::kWarning, "an RDMA driver does not answer, or fails"},
    {"MC315", Severity::kWarning, "an RDMA device has no queue pair or region left"},
    {"MC316", Severity::kWarning, "the daemon may not use an RDMA device"},
    {"MC317", Severity::kNote, "the other side has no RDMA"},
    {"MC318", Severity::kWarning, "an RDMA rail cannot be made"},
    {"MC319", Severity::kWarning, "little memory may be locked for RDMA"},
    {"MC320", Severity::kNote, "a connection is encrypted, so RDMA is not used beside it"},
    {"MC321", Severity::kOk, "RDMA"},
    {"MC401", Severity::kWarning, "the machine goes to sleep when nobody uses it"},
    {"MC402", Severity::kWarning, "few files may be open"},
    {"MC403", Severity::kWarning, "the clock is not synchronised"},
    {"MC404", Severity::kNote, "something could not be found out"},
    {"MC405", Severity::kWarning, "results are copied: MLX does not take the daemon's memory"},
    {"MC406", Severity::kNote, "results are copied, as MLXCOMM_RESULTS says"},
    {"MC407", Severity::kError, "MLX reads other bytes than lie in the daemon's memory"},
    {"MC408", Severity::kWarning, "the self test of the Python package fails"},
    {"MC409", Severity::kOk, "results of the Python package"},
    {"MC501", Severity::kError, "a node does not answer"},
    {"MC502", Severity::kError, "a link is down"},
    {"MC503", Severity::kWarning, "nodes run different versions"},
    {"MC504", Severity::kWarning, "clocks of nodes differ"},
    {"MC505", Severity::kWarning, "the two ends of a cable have different MTUs"},
    {"MC506", Severity::kWarning, "a link is much slower than the others"},
    {"MC507", Severity::kWarning, "a link is slower in one direction"},
    {"MC508", Severity::kNote, "the nodes form a line: a ring is not closed"},
    {"MC509", Severity::kWarning, "strangers were refused"},
    {"MC510", Severity::kWarning, "a job has failed or waits for long"},
    {"MC511", Severity::kOk, "nodes and links"},
    {"MC512", Severity::kNote, "nodes hold different keys"},
    {"MC601", Severity::kError, "ssh cannot be started"},
    {"MC602", Severity::kError, "a host's name is not known"},
    {"MC603", Severity::kError, "a host refuses ssh"},
    {"MC604", Severity::kError, "a host does not answer ssh"},
    {"MC605", Severity::kError, "a host's key is not known, or has changed"},
    {"MC606", Severity::kError, "a host does not let this user in without a password"},
    {"MC607", Severity::kError, "ssh to a host fails"},
    {"MC608", Severity::kError, "mlxcommctl is not found on a host, or does not run"},
    {"MC609", Severity::kError, "mlxcommctl on a host is of another release"},
    {"MC610", Severity::kError, "no daemon answers on a host"},
    {"MC611", Severity::kWarning, "the daemon of a host is not in this cluster"},
    {"MC612", Severity::kWarning, "a node has no name for ssh"},
    {"MC613", Severity::kNote, "there are no hosts to try ssh with"},
    {"MC614", Severity::kOk, "ssh to a host"},
});

}  // namespace

const char* SeverityText(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
    case Severity::kOk: return "ok";
  }
  return "note";
}

std::span<const FindingKind> FindingKinds() { return kKinds; }

const FindingKind* KindOf(std::string_view code) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [code](const FindingKind& kind) { return kind.code == code; });
  return found == kKinds.end() ? nullptr : &*found;
}

void Findings::Add(Finding finding) {
  MLXCOMM_INVARIANT(KindOf(finding.code) != nullptr);
  all_.push_back(std::move(finding));
}

std::vector<Finding> Findings::Sorted() const {
  std::vector<Finding> sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return std::pair(KindOf(a.code)->severity, a.code) <
           std::pair(KindOf(b.code)->severity, b.code);
  });
  return sorted;
}

bool Findings::Any(Severity severity) const {
  return std::any_of(all_.begin(), all_.end(), [severity](const Finding& finding) {
    return KindOf(finding.code)->severity == severity;
  });
}

}  // namespace mlxcomm::ctl
