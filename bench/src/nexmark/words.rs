//! The words that fields are made of.

/// First names of people.
pub const FIRST_NAMES: [&str; 11] = ["Ada", "Bela", "Chen", "Dora", "Emil", "Fatou", "Gita", "Hugo", "Ines", "Jonas", "Kiri"];
/// Last names of people.
pub const LAST_NAMES: [&str; 9] = ["Abel", "Boole", "Cantor", "Dirac", "Euler", "Fermat", "Gauss", "Hilbert", "Ito"];
/// Cities, chosen independently of the states.
pub const CITIES: [&str; 10] =
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"];
/// States; the third query keeps OR, ID and CA, which is one half.
pub const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];
/// The channels of half of all bids.
pub const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];
