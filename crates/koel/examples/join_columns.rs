//! Joins two tables by a column: each order with its customer's region, orders of unknown customers
//! separately, and all orders of each customer.
//!
//!     cargo run --release --example join_columns -- [ORDERS, 1000000 by default]
//!
//! A [`Map`] joins when keys are unique on one side, in the order of the other side or in any
//! order; a [`MultiMap`] when they are not.
use koel::{Device, Map, MultiMap};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::HashMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let n = std::env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse::<usize>())?;
    let device = Device::best()?;
    // Customers have 64-bit numbers; one of eight orders is from an unknown customer.
    let customers = (0..n as u32 / 8 + 1).map(|i| splitmix_at(3, i)).collect::<Vec<_>>();
    let regions = (0..customers.len() as u32).map(|i| i % 7).collect::<Vec<_>>();
    let customer_of =
        |i: u32| splitmix_at(3, (splitmix_at(5, i) % (customers.len() as u64 * 8 / 7)) as u32);
    let orders = (0..n as u32).map(customer_of).collect::<Vec<_>>();

    let region_of = Map::build(&device, &customers, &regions)?;
    // In the order of the orders, `None` for unknown customers: a left join.
    let left = region_of.get(&orders)?;
    // Rows (order, region) in any order, without unknown customers: an inner join.
    let mut inner = region_of.join(&orders)?;
    let unknown = region_of.anti_join(&orders)?;
    println!("{n} orders of {} customers on {}", customers.len(), device.name());
    println!("{} rows, {} orders of unknown customers", inner.len(), unknown.len());

    // The other direction: the orders of each customer.
    let numbers = (0..n as u32).collect::<Vec<_>>();
    let orders_of = MultiMap::build(&device, &orders, &numbers)?;
    let of_customers = orders_of.retrieve(&customers)?;
    let most = (0..customers.len()).max_by_key(|&c| of_customers.of(c).len()).unwrap_or(0);
    println!(
        "customer {:#018x} has the most orders: {}",
        customers[most],
        of_customers.of(most).len()
    );

    // The same by a naive join, row by row.
    let oracle = customers.iter().copied().zip(regions).collect::<HashMap<_, _>>();
    let expected = orders.iter().map(|customer| oracle.get(customer).copied()).collect::<Vec<_>>();
    let rows = expected
        .iter()
        .zip(0..)
        .filter_map(|(region, i)| region.map(|region| (i, region)))
        .collect::<Vec<_>>();
    inner.sort_unstable();
    let mut lists = HashMap::<u64, Vec<u32>>::new();
    for (&customer, &order) in orders.iter().zip(&numbers) {
        lists.entry(customer).or_default().push(order);
    }
    let is_list =
        |(c, customer)| of_customers.of(c) == lists.get(customer).map_or(&[][..], |list| list);
    let right = left == expected && inner == rows && unknown.len() == n - rows.len();
    if !right || !customers.iter().enumerate().all(is_list) {
        return Err("the rows differ from those of a naive join".into());
    }
    println!("the same as a naive join");
    Ok(())
}
