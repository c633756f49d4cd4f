#include "client/python/src/operation_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client/mlx/collectives.h"
#include "client/mlx/crossings.h"
#include "client/mlx/group_impl.h"
#include "mlx/distributed/distributed.h"

namespace nb = nanobind;
namespace mx = mlx::core;

namespace mlxcomm::python {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace): what is bound.

using mx::array;
using mx::distributed::Group;
using Counts = std::vector<std::uint64_t>;
using Rank = std::uint32_t;

Call CallOn(const Group& group, const mx::StreamOrDevice& stream, std::uint64_t timeout_ns) {
  auto* const ours = dynamic_cast<DaemonGroup*>(group.raw_group().get());
  if (ours == nullptr && group.size() > 1) {
    throw std::invalid_argument(
        "[mlxcomm] group: expected one of mlxcomm.init() or split off it, got one of MLX's own "
        "backends");
  }
  return {ours == nullptr ? nullptr : ours->joined(), stream, timeout_ns, {}};
}

// The functions that mlxcomm/fused.py uses.
void BindMany(nb::module_& m) {
  m.def(
      "all_reduce_many",
      [](const std::vector<array>& arrays, const std::string& op, std::size_t bucket_bytes,
         const Group& g, const mx::StreamOrDevice& s, std::uint64_t w) {
        return AllReduceMany(arrays, OperatorNamed(op), bucket_bytes, CallOn(g, s, w));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  m.def("crossings", &CountCrossings);
  // Whether both are one array of MLX: two Python objects may be, and one may become another (x +=
  // y).
  m.def("is_same", [](const array& a, const array& b) { return a.id() == b.id(); });
  m.def("is_traced", [](const array& a) { return a.is_tracer(); });
  m.def("same", [](const array& a) { return array(a); });  // As another object.
}

}  // namespace

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

}  // namespace mlxcomm::python
