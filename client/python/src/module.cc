// The extension mlxcomm._mlxcomm: exceptions, groups, operations, counters. Thread: any that holds
// the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/interrupt.h"
#include "client/mlx/call_check.h"
#include "client/mlx/collectives.h"
#include "client/mlx/group_impl.h"
#include "client/mlx/operation_error.h"
#include "client/mlx/operation_task.h"
#include "client/mlx/packing.h"
#include "client/mlx/process_end.h"
#include "client/mlx/result_memory.h"
#include "mlx/distributed/distributed.h"

namespace nb = nanobind;
namespace mx = mlx::core;

namespace mlxcomm::python {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace): everything in it is bound.

using mx::array;
using mx::distributed::Group;
using Counts = std::vector<std::uint64_t>;
using Rank = std::uint32_t;

nb::tuple FailureOf(const graph::FailureDetails& details) {
  return nb::make_tuple(static_cast<int>(details.code),
                        std::string(mlxcomm_code_name(details.code)), details.rank, details.message,
                        details.node, details.pid, details.group);
}

// Sets the Python exception for a failure. After Ctrl-C that is the signal handler's exception,
// whatever failed: another rank may have been interrupted first.
void Raise(const graph::FailureDetails& details) {
  // On the main thread this runs the handler of a pending signal.
  if (PyErr_CheckSignals() != 0) return;
  try {
    const nb::object raised =
        nb::module_::import_("mlxcomm.errors").attr("make_error")(FailureOf(details));
    PyErr_SetObject(raised.type().ptr(), raised.ptr());
  } catch (nb::python_error& other) {  // Ctrl-C, or the interpreter is shutting down.
    PyException_SetTraceback(other.value().ptr(), Py_None);  // Hides make_error.
    other.restore();
  }
}

void Translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const graph::OperationError& error) {
    Raise(error.details());
  } catch (const std::runtime_error& error) {
    const std::optional<graph::FailureDetails> details = graph::FindRecentFailure(error.what());
    if (!details.has_value()) throw;  // Not our exception: the next translator handles it.
    Raise(*details);
  }
}

// For MLX before 0.32.1 (operation_task.h): raises the failure at this thread's next Python
// instruction, which after an async_eval may be any. Null if the evaluating thread holds the GIL,
// which the task could not take then.
graph::HandOver HandOverToThisThread() {
  if (PyGILState_Check() != 0) return nullptr;
  return [thread = PyThread_get_thread_ident()](const graph::FailureDetails& details) {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire locked;
    // Clears an earlier exception, which would be raised within to_raise on this thread.
    PyThreadState_SetAsyncExc(thread, nullptr);
    nb::object kind;
    try {
      kind =
          nb::module_::import_("mlxcomm.errors")
              .attr("to_raise")(FailureOf(details), thread, client::WasInterrupted(nullptr) != 0);
    } catch (const nb::python_error& other) {  // Ctrl-C.
      kind = nb::borrow(other.type());
    }
    if (!kind.is_none()) PyThreadState_SetAsyncExc(thread, kind.ptr());
  };
}

DaemonGroup* OursOrNull(const Group& group) {
  return dynamic_cast<DaemonGroup*>(group.raw_group().get());
}

DaemonGroup& Ours(const Group& group) {
  DaemonGroup* const ours = OursOrNull(group);
  if (ours == nullptr) throw nb::value_error("expected a group of mlxcomm.init()");
  return *ours;
}

// Makes a blocking call without the GIL, and throws its failure.
template <typename Call>
void Waited(const mlxcomm_group* group, Call call) {
  mlxcomm_error error{};
  mlxcomm_code code;
  {
    nb::gil_scoped_release unlocked;
    code = call(error);
  }
  CheckOperation(code, error, group);
}

Group Join(const std::string& job, unsigned rank, unsigned size, const std::string& socket,
           std::uint64_t timeout_ns, std::uint64_t arena_bytes) {
  std::shared_ptr<DaemonGroup> joined;
  Waited(nullptr, [&](mlxcomm_error& error) {
    return JoinJob(job, rank, size,
                   {.socket = socket, .timeout_ns = timeout_ns, .arena_bytes = arena_bytes}, joined,
                   error);
  });
  return Group(joined);
}

nb::tuple FindPlace(const std::string& job, std::optional<std::int64_t> rank,
                    std::optional<std::int64_t> size,
                    const std::optional<std::map<std::string, std::string>>& environment) {
  mlxcomm_place_options options;
  mlxcomm_place_options_init(&options);
  if (!job.empty()) options.job = job.c_str();
  options.rank = rank.value_or(-1);
  options.size = size.value_or(-1);
  if (environment) {
    options.lookup = [](void* context, const char* name) -> const char* {
      const auto& variables = *static_cast<const std::map<std::string, std::string>*>(context);
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    };
    options.lookup_context = const_cast<std::map<std::string, std::string>*>(&*environment);
  }
  mlxcomm_place place;
  mlxcomm_error error{};
  if (mlxcomm_find_place(&options, &place, &error) != MLXCOMM_OK)
    throw nb::value_error(error.message);
  return nb::make_tuple(std::string(place.job), place.rank, place.size, place.launched != 0);
}

void BindGroups(nb::module_& m) {
  m.def("find_place", &FindPlace, nb::arg("job"), nb::arg("rank").none(), nb::arg("size").none(),
        nb::arg("environment").none());
  m.def("join", &Join);
  m.def("why_results_are_copied", [](const Group& group, bool reads) {
    const std::shared_ptr<Connected> connected = Ours(group).joined()->connected;
    nb::gil_scoped_release unlocked;
    return WhyResultsAreCopied(connected, reads);
  });
  m.def("alone", [] { return Group(std::make_shared<AloneGroup>()); });
  m.def("is_ours", [](const Group& group) { return OursOrNull(group) != nullptr; });
  m.def("name",
        [](const Group& group) { return std::string(mlxcomm_group_name(Ours(group).handle())); });
  m.def("check", [](const Group& group) {
    DaemonGroup* const ours = OursOrNull(group);
    if (ours == nullptr) return;
    mlxcomm_error error{};
    CheckOperation(mlxcomm_group_failure(ours->handle(), &error), error, ours->handle());
  });
  m.def("barrier", [](const Group& group, std::uint64_t timeout_ns) {
    DaemonGroup& ours = Ours(group);
    Waited(ours.handle(), [&](mlxcomm_error& error) { return ours.Barrier(timeout_ns, error); });
  });
  m.def("split", [](const Group& group, std::int32_t color, std::int32_t key,
                    const std::string& name, std::uint64_t timeout_ns) {
    DaemonGroup& ours = Ours(group);
    std::shared_ptr<DaemonGroup> part;
    Waited(ours.handle(), [&](mlxcomm_error& error) {
      return ours.Split(color, key, name.empty() ? nullptr : name.c_str(), timeout_ns, part, error);
    });
    return part == nullptr ? std::nullopt : std::optional<Group>(part);
  });
  m.def("shrink", [](const Group& group, std::uint64_t timeout_ns) {
    DaemonGroup& ours = Ours(group);
    std::shared_ptr<DaemonGroup> rest;
    Waited(ours.handle(),
           [&](mlxcomm_error& error) { return ours.Shrink(timeout_ns, rest, error); });
    return Group(rest);
  });
  m.def("leave", [](const Group& group, const std::string& why) {
    DaemonGroup& ours = Ours(group);
    nb::gil_scoped_release unlocked;
    mlxcomm_leave(ours.handle(), why.c_str());
  });
  m.def("await_queued", [] {
    {
      nb::gil_scoped_release unlocked;
      AwaitQueued();
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
  m.def("keep_later_ends", &KeepLaterEnds);
  m.def("set_timeout", [](const Group& group, std::uint64_t timeout_ns) {
    mlxcomm_group_set_timeout(Ours(group).handle(), timeout_ns);
  });
}

void BindChecks(nb::module_& m) {
  m.def("enable_call_checks", &EnableCallChecks);
  nb::class_<CallSite>(m, "CallSite").def(nb::init<std::string, std::string, std::string>());
  m.def("set_call_site", &SetCallSite);
}

void BindSignals(nb::module_& m) {
  m.def("watch", [](int signal, bool asked) {
    client::Watch(signal, asked ? client::OnSignal::kAsked : client::OnSignal::kAtOnce);
  });
  m.def("arrived", &client::Arrived);
  m.def("arrivals_pipe", &client::ArrivalsPipe);
  m.def("interrupt", &client::Interrupt);
  m.def("is_waiting", &client::AnyUnderWay);
}

Call CallOn(const Group& group, const mx::StreamOrDevice& stream, std::uint64_t timeout_ns) {
  auto* const ours = dynamic_cast<DaemonGroup*>(group.raw_group().get());
  if (ours == nullptr && group.size() > 1) {
    throw std::invalid_argument(
        "group: expected a group from mlxcomm.init() or split(), got one of MLX's backends");
  }
  return {ours == nullptr ? nullptr : ours->joined(), stream, timeout_ns, {}};
}

// Used by mlxcomm/fused.py.
void BindMany(nb::module_& m) {
  m.def(
      "all_reduce_many",
      [](const std::vector<array>& arrays, const std::string& op, std::size_t bucket_bytes,
         const Group& g, const mx::StreamOrDevice& s, std::uint64_t w) {
        return AllReduceMany(arrays, OperatorNamed(op), bucket_bytes, CallOn(g, s, w));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  m.def("crossings", &CountCrossings);
}

void BindOperations(nb::module_& m) {
  BindMany(m);
  nb::dict kinds;
  kOperations.ForEach(
      [&](const OperationRow& row) { kinds[row.name] = static_cast<std::uint32_t>(row.value); });
  m.attr("kinds") = kinds;
  // Each ends in (group, stream, timeout_ns).
  using Stream = mx::StreamOrDevice;
  using Wait = std::uint64_t;
  m.def(
      "operate",
      [](std::uint8_t kind, const array& x, Rank peer, std::uint32_t tag, const std::string& op,
         Counts counts, Counts receive_counts, const Group& g, const Stream& s, Wait w) {
        return Operate(x,
                       {.kind = static_cast<OperationKind>(kind),
                        .op = OperatorNamed(op),
                        .root = peer,
                        .tag = tag,
                        .send_rows = std::move(counts),
                        .receive_rows = std::move(receive_counts)},
                       CallOn(g, s, w));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
      nb::arg().none(), nb::arg());
  m.def(
      "recv",
      [](const std::vector<int>& shape, const mx::Dtype& type, Rank source, std::uint32_t tag,
         const std::optional<array>& after, const Group& g, const Stream& s, Wait w) {
        return Receive(mx::Shape(shape.begin(), shape.end()), type, source, tag, after,
                       CallOn(g, s, w));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(),
      nb::arg());
}

void WaitWithoutPythonLock(const std::function<void()>& wait) {
  std::optional<nb::gil_scoped_release> released;
  if (PyGILState_Check() != 0) released.emplace();
  wait();
}

}  // namespace
}  // namespace mlxcomm::python

NB_MODULE(_mlxcomm, m) {
  nb::module_::import_("mlx.core");  // Registers its types.
  if (!nb::type<mx::array>().is_valid()) {
    throw nb::import_error(
        "mlxcomm and mlx.core were built with nanobind releases of different ABIs: build mlxcomm "
        "with "
        "the nanobind that client/python/mlx_release.py lists for this MLX");
  }
  mlxcomm::graph::SetAroundWaits(mlxcomm::python::WaitWithoutPythonLock);
  mlxcomm::graph::SetHandOver(mlxcomm::python::HandOverToThisThread);
  m.attr("version") = mlxcomm_version();
  nb::register_exception_translator(mlxcomm::python::Translate);
  mlxcomm::python::BindGroups(m);
  mlxcomm::python::BindSignals(m);
  mlxcomm::python::BindChecks(m);
  mlxcomm::python::BindOperations(m);
  m.def("counters", [] {
    const auto& counters = mlxcomm::graph::GetCounters();
    nb::dict out;
    out["operations"] = counters.operations.load();
    out["inputs_copied"] = counters.inputs_copied.load();
    out["inputs_in_arena"] = counters.inputs_in_arena.load();
    out["results_copied"] = counters.results_copied.load();
    return out;
  });
}
