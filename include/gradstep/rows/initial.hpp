#pragma once
#include <numbers>

#include <gradstep/memory/buffer.hpp>
#include <gradstep/number/bfloat16.hpp>
#include <gradstep/number/pack.hpp>
#include <gradstep/number/random.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
/// Initial values of a table, uniform between `low` and `high`, computed in double:
///
///     u     = (word + 1/2) / 2^32           in (0, 1), symmetric about 1/2
///     value = low + (high - low) * u        high - low rounded, one fma, then rounded to T
///
/// word: number column % 4 of philox4x32 with the key `seed`, whose counter is row and column / 4
/// in 64 bits each, low half first. So a value depends only on seed, row and column, and has the
/// same bits on every system. T is the table's type. A table of bfloat16 holds the rounded values
/// of a table of float. Values are in [low, high], both as the table's type rounds them; rounding
/// can reach either end. Ranges: low <= high, both finite in the table's type; high - low finite.
struct uniform {
    double low = missing, high = missing;
    std::uint64_t seed = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"low", &uniform::low}, hyperparameter{"high", &uniform::high},
                            hyperparameter{"seed", &uniform::seed, ranges::count}};

    GRADSTEP_INLINE void check() const {
        if (low > high)
            detail::fail<value_error>({"uniform.low"}, {low, " is out of range"}, {"at most high = ", high});
        if (!(high - low <= std::numeric_limits<double>::max()))
            detail::fail<value_error>({"uniform"}, {"low = ", low, ", high = ", high}, {"a finite high - low"});
    }
};

/// Initial values of a table from a normal distribution (Box & Muller 1958), computed in double:
///
///     u, v  = (word + 1/2) / 2^32                       of a block of four columns: 0 and 1 use
///                                                       words 0 and 1; 2 and 3 use words 2 and 3
///     r     = sqrt(-2 * log(u))
///     value = mean + deviation * (r * cos(2 * pi * v))  in the even column; sin in the odd one
///             one fma, then rounded to the table's type (bfloat16: from float)
///
/// Words as for `uniform`: a value depends only on seed, row and column. Its last bit can differ
/// between C libraries whose log, cos and sin differ. Values are in mean +- 6.77 * deviation, since
/// u is at least 2^-33: a normal variable is outside once in 8e10 draws. Ranges: mean finite;
/// deviation >= 0; the bounds above finite in the table's type.
struct normal {
    double mean = missing, deviation = missing;
    std::uint64_t seed = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"mean", &normal::mean}, hyperparameter{"deviation", &normal::deviation, ranges::non_negative},
        hyperparameter{"seed", &normal::seed, ranges::count}};
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Range> concept value_range = !number<Range> && contiguous_buffer<Range> && lives_in<Range, host_memory>;
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep {
/// The values of a table's rows before their first step. They are one number for all elements
/// (default 0), `uniform`, `normal`, or given values. Given values are a contiguous container or
/// span of the table's type (float, double or bfloat16), row by row.
///
///     {.initial = 0.1}   {.initial = gs::uniform{-0.05, 0.05, seed}}   {.initial = values}
///
/// The object does not own a container's values. The constructor of the table reads them once. Rows
/// that are added to such a table are zero. With a number, `uniform` or `normal`, added rows get
/// the values that they would have had from the start.
class initial_values {
public:
    GRADSTEP_INLINE initial_values() : initial_values(0.0) {}
    template <detail::number Number>
    GRADSTEP_INLINE initial_values(Number constant) : is_(kind::constant), constant_(static_cast<double>(constant)) {}
    GRADSTEP_INLINE initial_values(gradstep::uniform const& distribution)
        : is_(kind::uniform), uniform_(distribution) {}
    GRADSTEP_INLINE initial_values(gradstep::normal const& distribution) : is_(kind::normal), normal_(distribution) {}
    GRADSTEP_INLINE initial_values(std::span<float const> values) : is_(kind::floats), floats_(values) {}
    GRADSTEP_INLINE initial_values(std::span<double const> values) : is_(kind::doubles), doubles_(values) {}
    GRADSTEP_INLINE initial_values(std::span<bfloat16 const> values) : is_(kind::bfloat16s), bfloat16s_(values) {}
    template <detail::value_range Range>
    GRADSTEP_INLINE initial_values(Range const& values) : initial_values(as_span(values)) {}

    /// Calls f with the content: a double, a `uniform`, a `normal`, or a span of const float,
    /// double or bfloat16.
    template <class F> GRADSTEP_INLINE decltype(auto) visit(F const& f) const {
        switch (is_) {
        case kind::uniform:
            return f(uniform_);
        case kind::normal:
            return f(normal_);
        case kind::floats:
            return f(floats_);
        case kind::doubles:
            return f(doubles_);
        case kind::bfloat16s:
            return f(bfloat16s_);
        default:
            return f(constant_);
        }
    }
    /// Whether it refers to your values, which the constructor of the table reads.
    GRADSTEP_INLINE bool is_container() const { return is_ >= kind::floats; }
    /// The number that all elements get, or null if the values are not one number.
    GRADSTEP_INLINE double const* constant() const { return is_ == kind::constant ? &constant_ : nullptr; }

private:
    enum class kind { constant, uniform, normal, floats, doubles, bfloat16s };

    template <class Range> GRADSTEP_INLINE static auto as_span(Range const& values) {
        using value_type = std::remove_const_t<detail::element_type<Range const>>;
        constexpr bool storable = std::is_same_v<value_type, float> || std::is_same_v<value_type, double> ||
                                  std::is_same_v<value_type, bfloat16>;
        static_assert(storable, "gradstep: initial: its elements are of another type; expected a container or span of "
                                "float, double or bfloat16, whichever the table stores");
        if constexpr (storable) {
            using traits = detail::traits_of<Range>;
            return std::span<value_type const>(traits::data(values), traits::size(values));
        } else {
            return 0.0;
        }
    }

    // By hand: a std::variant of these types takes as long to compile as all rules.
    kind is_;
    union {
        double constant_;
        gradstep::uniform uniform_;
        gradstep::normal normal_;
        std::span<float const> floats_;
        std::span<double const> doubles_;
        std::span<bfloat16 const> bfloat16s_;
    };
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// x as a table of T stores it. 16-bit types round from float: such a table equals a rounded table
// of float.
template <class T> GRADSTEP_INLINE T stored(double x) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(x);
    else return T(static_cast<float>(x));
}

// Throws value_error unless x, described by `name`, is finite in a table of T.
template <class T> void require_finite_in(std::string const& name, double x) {
    if (!(std::abs(static_cast<double>(widen(stored<T>(x)))) <= std::numeric_limits<double>::max()))
        detail::fail<value_error>({name}, {x, " is out of range"}, {"finite in ", type_name<T>()});
}

template <class T> void check_initial(double constant, std::uint64_t, std::size_t) {
    require_finite_in<T>("initial", constant);
}
template <class T> void check_initial(uniform const& distribution, std::uint64_t, std::size_t) {
    check(distribution);
    require_finite_in<T>("uniform.low", distribution.low);
    require_finite_in<T>("uniform.high", distribution.high);
}
template <class T> void check_initial(normal const& distribution, std::uint64_t, std::size_t) {
    constexpr double farthest = 6.77; // sqrt(-2 * log(2^-33)) = 6.764
    check(distribution);
    double const reach = std::fma(farthest, distribution.deviation, std::abs(distribution.mean));
    require_finite_in<T>("abs(normal.mean) + 6.77 * normal.deviation", reach);
}
template <class T, class Given>
void check_initial(std::span<Given const> values, std::uint64_t rows, std::size_t width) {
    if (!std::is_same_v<T, Given>)
        detail::fail<value_error>({"initial"}, {"holds ", type_name<Given>()},
                                  {type_name<T>(), ", which the table stores"});
    // By division: rows * width can overflow 64 bits.
    bool const fits =
        rows == 0 || width == 0 ? values.empty() : values.size() % width == 0 && values.size() / width == rows;
    if (!fits)
        detail::fail<size_error>({"initial"}, {"has ", values.size(), " elements"},
                                 {rows, " rows of width ", width, "; give one for each element"});
    if (values.data() == nullptr && !values.empty())
        detail::fail<buffer_error>({"initial"}, {"is null"}, {values.size(), " elements of memory"});
}

// Throws value_error, size_error or buffer_error unless `initial` can fill a table of rows x width
// elements of T.
template <class T> void check_initial(initial_values const& initial, std::uint64_t rows, std::size_t width) {
    initial.visit([&](auto const& given) { check_initial<T>(given, rows, width); });
}

// Whether all rows start with the same values.
inline bool is_constant(initial_values const& initial) { return initial.constant() != nullptr; }

// Whether all values are +0: zeroed memory need not be written.
inline bool is_zero(initial_values const& initial) {
    double const* const constant = initial.constant();
    return constant != nullptr && *constant == 0 && !std::signbit(*constant);
}

// In (0, 1), so that its logarithm is finite. Its mean is 1/2.
GRADSTEP_INLINE double unit_interval(std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

// The values of the four columns that share a block of words.
GRADSTEP_INLINE void draw(uniform const& distribution, philox_words const& words, double* values) {
    double const extent = distribution.high - distribution.low;
    for (int k = 0; k < 4; ++k) values[k] = std::fma(extent, unit_interval(words.word[k]), distribution.low);
}
GRADSTEP_INLINE void draw(normal const& distribution, philox_words const& words, double* values) {
    for (int k = 0; k < 4; k += 2) {
        double const radius = std::sqrt(-2 * std::log(unit_interval(words.word[k])));
        double const angle = 2 * std::numbers::pi * unit_interval(words.word[k + 1]);
        values[k] = std::fma(distribution.deviation, radius * std::cos(angle), distribution.mean);
        values[k + 1] = std::fma(distribution.deviation, radius * std::sin(angle), distribution.mean);
    }
}

// The same as a number of another type, which has all its digits.
template <class T, class Out> GRADSTEP_INLINE Out stored_as(double x) {
    if constexpr (std::is_same_v<T, Out>) return stored<T>(x);
    else return Out(widen(stored<T>(x)));
}

template <class T, class Out, class Distribution>
void fill(Distribution const& distribution, Out* out, std::uint64_t row, std::uint64_t row_count, std::size_t width) {
    for (; row_count != 0; ++row, --row_count) {
        for (std::uint64_t column = 0; column < width; column += 4) {
            std::uint64_t const block = column / 4;
            double values[4];
            draw(distribution,
                 philox4x32({{static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32),
                              static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32)}},
                            distribution.seed),
                 values);
            std::uint64_t const count = std::min<std::uint64_t>(4, width - column);
            for (std::uint64_t k = 0; k < count; ++k) *out++ = stored_as<T, Out>(values[k]);
        }
    }
}
template <class T, class Out>
void fill(double constant, Out* out, std::uint64_t, std::uint64_t row_count, std::size_t width) {
    std::fill_n(out, row_count * width, stored_as<T, Out>(constant));
}
template <class T, class Out, class Given>
void fill(std::span<Given const> values, Out* out, std::uint64_t row, std::uint64_t row_count, std::size_t width) {
    if constexpr (std::is_same_v<T, Given> && std::is_same_v<T, Out>) { // check_initial rejects all others
        auto const rest = values.subspan(std::min<std::uint64_t>(row * width, values.size()));
        auto const given = rest.first(std::min<std::uint64_t>(row_count * width, rest.size()));
        out = std::copy(given.begin(), given.end(), out);
        std::fill_n(out, row_count * width - given.size(), stored<T>(0));
    }
}

// Writes the initial values of the rows first_row, ..., first_row + row_count - 1 to `out`, after
// check_initial, or as numbers of a type with all digits of the table's T. The bits of a row do not
// depend on how rows are split into calls. Rows beyond the rows of a span are zero: the table has
// grown.
template <class T = void, class Out, class Stored = std::conditional_t<std::is_void_v<T>, Out, T>>
void fill_rows(initial_values const& initial, Out* out, std::uint64_t first_row, std::uint64_t row_count,
               std::size_t width) {
    initial.visit([&](auto const& given) { fill<Stored>(given, out, first_row, row_count, width); });
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
